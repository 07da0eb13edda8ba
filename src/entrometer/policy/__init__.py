"""Models, adapters and checkpoints with their optimizer; precision; sampling."""

from entrometer.policy.adapter import add_adapter
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.checkpoint import Checkpoint, load_checkpoint
from entrometer.policy.loading import load_policy
from entrometer.policy.policy import Policy, moved
from entrometer.policy.precision import (
    LowPrecisionSpy,
    Precision,
    PrecisionLost,
    float64_only,
)
from entrometer.policy.sampling import eos_tokens, sample
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
    "sample",
    "sample_from_server",
    "save_tiny",
    "tiny_policy",
]
