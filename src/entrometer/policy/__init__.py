"""Checkpoints in: models, adapters, optimizer states, precision and sampling."""

from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.checkpoint import Checkpoint, load_checkpoint
from entrometer.policy.fresh_adapter import add_adapter
from entrometer.policy.loading import load_policy
from entrometer.policy.moved import moved
from entrometer.policy.policy import Policy
from entrometer.policy.precision import (
    LowPrecisionSpy,
    Precision,
    PrecisionLost,
    float64_only,
)
from entrometer.policy.sampling import eos_tokens, sample
from entrometer.policy.smollm2 import PreparationFailed, prepare_smollm2
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.policy.tiny import save_tiny, tiny_policy
from entrometer.policy.vllm_server import (
    BadServerAnswer,
    ServerUnavailable,
    sample_from_server,
)

__all__ = [
    "BadServerAnswer",
    "Checkpoint",
    "LowPrecisionSpy",
    "Policy",
    "Precision",
    "PrecisionLost",
    "PreparationFailed",
    "ServerUnavailable",
    "SourceNotFound",
    "UnknownArchitecture",
    "UnreadableSource",
    "add_adapter",
    "eos_tokens",
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
