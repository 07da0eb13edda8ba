"""The run directory: tables with a checked schema, written whole or not at all."""

from entrometer.runs.atomic import DamagedFile, atomic_write
from entrometer.runs.rollouts import (
    Rollouts,
    Sampler,
    read_rollouts,
    write_rollouts,
)
from entrometer.runs.seeds import response_seeds

__all__ = [
    "DamagedFile",
    "Rollouts",
    "Sampler",
    "atomic_write",
    "read_rollouts",
    "response_seeds",
    "write_rollouts",
]
