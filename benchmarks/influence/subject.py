"""A checkpoint of the reference run, its recorded batch, and an evaluation batch."""

from pathlib import Path

from entrometer.engine import LocalEngine, quiet
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan, plan
from entrometer.experiments.requests import Request
from entrometer.experiments.run import run_requests

CHECKPOINT = Path(__file__).parents[2] / "studies" / "reference" / "checkpoint-40"


def planned(prompts: int, **settings: object) -> CheckpointPlan:
    """The passes for so many prompts."""
    config = InfluenceConfig(
        checkpoints=(str(CHECKPOINT),),
        policy="smollm2",
        level="easy",
        prompts=prompts,
        remove=0.0,
        batches=1,
        **settings,  # type: ignore[arg-type]
    )
    (point,) = plan(config)
    return point


def have(requests: list[Request], store: Path) -> None:
    """Carry out what the store has not."""
    run_requests(requests, store, quiet, LocalEngine())
