"""Read checkpoints and update batches of other frameworks."""

from entrometer.importers.checkpoint import ForeignCheckpoint, Lora, write_checkpoint
from entrometer.importers.prime_rl import export_files, read_prime_rl
from entrometer.importers.read import read_foreign

__all__ = [
    "ForeignCheckpoint",
    "Lora",
    "export_files",
    "read_foreign",
    "read_prime_rl",
    "write_checkpoint",
]
