"""A checkpoint of the reference run, with all interventions to compare there."""

from benchmarks.influence.subject import CHECKPOINT
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.experiments.comparison.plan import PointPlan, plan


def planned(**settings: object) -> PointPlan:
    """The passes of a comparison at one point."""
    config = CompareConfig(
        checkpoints=(str(CHECKPOINT),),
        policy="smollm2",
        level="easy",
        **settings,  # type: ignore[arg-type]
    )
    (point,) = plan(config)
    return point
