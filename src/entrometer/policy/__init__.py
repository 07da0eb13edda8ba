"""Checkpoints in: models, adapters, optimizer states, precision and sampling."""

from entrometer.policy.checkpoint import Checkpoint, load_checkpoint
from entrometer.policy.loading import load_policy
from entrometer.policy.moved import moved
from entrometer.policy.policy import Policy
from entrometer.policy.precision import LowPrecisionSpy, Precision, float64_only
from entrometer.policy.sampling import sample
from entrometer.policy.smollm2 import prepare_smollm2
from entrometer.policy.tiny import save_tiny, tiny_policy
from entrometer.policy.vllm_server import sample_from_server

__all__ = [
    "Checkpoint",
    "LowPrecisionSpy",
    "Policy",
    "Precision",
    "float64_only",
    "load_checkpoint",
    "load_policy",
    "moved",
    "prepare_smollm2",
    "sample",
    "sample_from_server",
    "save_tiny",
    "tiny_policy",
]
