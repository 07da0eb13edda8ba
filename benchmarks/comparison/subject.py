"""A checkpoint of the reference run, with all interventions to compare there."""

from benchmarks.influence.subject import CHECKPOINT
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.plan import PointPlan, plan


def planned(**settings: object) -> tuple[CompareConfig, PointPlan]:
    """The settings of a comparison, and its passes at one point."""
    config = CompareConfig(
        checkpoints=(str(CHECKPOINT),),
        policy="smollm2",
        level="easy",
        batches=1,
        **settings,  # type: ignore[arg-type]
    )
    (point,) = plan(config)
    return config, point
