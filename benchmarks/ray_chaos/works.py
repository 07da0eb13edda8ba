"""All kinds of passes over a few responses, cut into many pieces."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Forward, Jvp, Request, Step, Worker
from entrometer.experiments.token_influence.requests import Adjoint, FoldGradient


class Cut:
    """In pieces of two responses, in trees of more than one level."""

    shard_tokens: ClassVar[int] = 64
    part_tokens: ClassVar[int] = 32
    fan_in: ClassVar[int] = 4


class CutStep(Cut, Step):
    """An update."""

    kind: ClassVar[str] = "cut-update"


class CutGradient(Cut, FoldGradient):
    """Gradients of a fold."""

    kind: ClassVar[str] = "cut-gradient"


class CutAdjoint(Cut, Adjoint):
    """Influence."""

    kind: ClassVar[str] = "cut-adjoint"


@dataclass(frozen=True, kw_only=True)
class Broken(Forward):
    """A pass that always fails."""

    kind: ClassVar[str] = "broken"

    def run(self, worker: Worker) -> None:
        """Fail."""
        raise ArithmeticError("this one never works")


def works(trained: Path, shards: int = 1) -> list[Request]:
    """Draws, forwards, an update, gradients by fold, jvps and influence.

    For workers of so many processes.
    """
    config = ExperimentConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        updates=("sampled-1",),
        level="tiny",
        prompts=32,
        shard=4,
        update_prompts=4,
        update_responses=4,
        max_tokens=32,
        model_shards=shards,
    )
    path = Path(config.checkpoints[0])
    subject = subject_of(config, path)
    draws = evaluation(config, subject)
    sampled = step_of(config, subject, "sampled-1", 2)
    assert isinstance(sampled.batch, Draw)
    step = CutStep(subject=subject, batch=sampled.batch, max_grad_norm=1.0)
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    gradients = tuple(
        CutGradient(subject=subject, here=here, folds=2, fold=q) for q in range(2)
    )
    along = [Jvp(subject=subject, rollouts=draw, steps=(step,)) for draw in draws]
    adjoint = CutAdjoint(subject=subject, step=step, gradients=gradients)
    return [*draws, sampled.batch, *here, step, *gradients, *along, adjoint]
