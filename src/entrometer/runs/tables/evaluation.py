"""Results of evaluating checkpoints: one row per checkpoint and quantity."""

from dataclasses import dataclass, field

from entrometer.runs.tables.subjects import OfCheckpoint


@dataclass(frozen=True, kw_only=True)
class Evaluated(OfCheckpoint):
    """One quantity of one checkpoint; the problems are the independent units.

    `x`, `x_se`, `x_low` and `x_high` are an estimate, its standard error and its 95%
    interval, clustered by problem.
    """

    step: int
    """Optimizer steps of the checkpoint."""
    quantity: str
    """`pass_at_1` and further k, `format_rate`, `truncated` (all from 0 to 1), `length`
    (tokens per response) or `entropy` (nats per token)."""
    value: float
    value_se: float
    value_low: float
    value_high: float
    change: float
    """Difference from the first checkpoint, paired by problem; NaN for the first."""
    change_se: float
    """NaN if every problem changed equally: such a sample does not show its spread."""
    change_low: float
    change_high: float
    prompts: int
    """Number of problems."""
    responses: int
    """Number of responses to all of them."""


@dataclass(frozen=True)
class EvaluationTables:
    """The table of an evaluation."""

    results: list[Evaluated] = field(default_factory=list)
