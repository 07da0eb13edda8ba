"""Result tables of `entrometer diagnose`: those of three experiments, and a curve."""

from dataclasses import dataclass, field

from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.influence import InfluenceTables
from entrometer.runs.tables.measure import MeasureTables
from entrometer.runs.tables.subjects import OfCheckpoint


@dataclass(frozen=True, kw_only=True)
class CurvePoint(OfCheckpoint):
    """Entropy and reward of the responses of one recorded update of the training."""

    step: int  #: Optimizer steps before the update: its responses are of that policy.
    entropy: float
    """Mean over the tokens that the loss counts, in nats per token."""
    entropy_se: float  #: Standard error, clustered by prompt group.
    reward: float  #: Mean over the responses that have a reward; NaN if none has.
    responses: int


@dataclass(frozen=True)
class DiagnoseTables(CompareTables, InfluenceTables, MeasureTables):
    """All tables of `measure`, `influence` and `compare`, and the training's curve.

    `signal` has one row per update: that of `measure`.
    """

    curve: list[CurvePoint] = field(default_factory=list)
