"""Checkpoints and batches of other frameworks, turned into what is read here."""

from entrometer.importers.foreign import Foreign, Lora
from entrometer.importers.prime_rl import export_files, read_prime_rl
from entrometer.importers.read import read_foreign
from entrometer.importers.writing import write_checkpoint

__all__ = [
    "Foreign",
    "Lora",
    "export_files",
    "read_foreign",
    "read_prime_rl",
    "write_checkpoint",
]
