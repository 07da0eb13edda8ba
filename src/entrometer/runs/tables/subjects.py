"""The columns that say what a row of a result table is about."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OfCheckpoint:
    """A row about a checkpoint."""

    checkpoint: str
    """Name of the checkpoint."""


@dataclass(frozen=True, kw_only=True)
class OfUpdate(OfCheckpoint):
    """A row about an update of a checkpoint."""

    update: str
    """Name of the update batch: `recorded`, or `sampled-` and its seed."""
