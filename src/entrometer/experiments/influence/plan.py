"""Which passes a measurement of influence needs, in the order they can be made."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entrometer.experiments.batches import (
    evaluation,
    recorded,
    require_rates,
    short_names,
    step_of,
    subject_of,
)
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.requests import (
    Blocks,
    DecodeTokens,
    PastBatchProducts,
)
from entrometer.experiments.requests import (
    Concentration,
    Draw,
    Forward,
    Request,
    Step,
    Subject,
)
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.requests import (
    Adjoint,
    FoldGradient,
    MomentumProducts,
    folded,
)
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import present, update_path


@dataclass(frozen=True, kw_only=True)
class RemovalPlan:
    """The passes for tokens that are taken out in one way."""

    by: str
    step: Step
    there: tuple[Forward, ...]
    """The evaluation batch after the step without them."""


@dataclass(frozen=True, kw_only=True)
class CheckPlan:
    """The passes of the check of one update."""

    whole: tuple[Forward, ...]
    """The evaluation batch after the whole step."""

    removals: tuple[RemovalPlan, ...]

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        yield from self.whole
        for removal in self.removals:
            yield removal.step
            yield from removal.there


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The passes for one update of a checkpoint."""

    name: str
    step: Step
    adjoint: Adjoint
    carried: MomentumProducts
    past: tuple[PastBatchProducts, ...]
    concentration: Concentration
    blocks: Blocks
    words: DecodeTokens
    check: CheckPlan | None = None
    """The check by removal, once it is known which tokens to remove."""

    def requests(self) -> Iterator[Request]:
        """All of them, after the step and the gradients."""
        yield from (self.adjoint, self.carried, *self.past)
        yield from (self.concentration, self.blocks, self.words)
        if self.check is not None:
            yield from self.check.requests()


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps behind it."""

    learning_rate: float
    """Of the training."""

    eta: float
    """Of the check by removal."""

    subject: Subject
    here: tuple[Forward, ...]
    """Over the evaluation batch, in shards."""

    gradients: tuple[FoldGradient, ...]
    """One a fold."""

    updates: tuple[UpdatePlan, ...]

    def read_batch(self, store: Path) -> Evaluation:
        """The evaluation batch with its tables, in folds."""
        return self.gradients[0].read_batch(store)

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        batches = [u.step.batch for u in self.updates]
        yield from (h.rollouts for h in self.here)
        yield from (batch for batch in batches if isinstance(batch, Draw))
        yield from self.here
        yield from (update.step for update in self.updates)
        yield from self.gradients
        for update in self.updates:
            yield from update.requests()


def plan(config: InfluenceConfig) -> list[CheckpointPlan]:
    """The passes of a measurement, by checkpoint. Reads files, and loads no model."""
    names = short_names(config.checkpoints)
    return [
        _checkpoint(config, Path(path), name)
        for path, name in zip(config.checkpoints, names, strict=True)
    ]


def _checkpoint(config: InfluenceConfig, path: Path, name: str) -> CheckpointPlan:
    subject = subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    eta = config.eta or learning_rate
    if config.remove:
        require_rates(path, learning_rate, [eta])
    gradients = folded(subject, evaluation(config, subject), config.folds)
    return CheckpointPlan(
        name=name,
        steps=steps,
        learning_rate=learning_rate,
        eta=eta,
        subject=subject,
        here=gradients[0].here,
        gradients=gradients,
        updates=tuple(
            _update(config, update, step_of(config, subject, update, steps), gradients)
            for update in config.updates
        ),
    )


def _update(
    config: InfluenceConfig, name: str, step: Step, gradients: tuple[FoldGradient, ...]
) -> UpdatePlan:
    subject = step.subject
    beside = Path(subject.path)
    steps = read_schedule(beside).step
    return UpdatePlan(
        name=name,
        step=step,
        adjoint=Adjoint(subject=subject, step=step, gradients=gradients),
        carried=MomentumProducts(subject=subject, step=step, gradients=gradients),
        past=tuple(
            PastBatchProducts(
                subject=subject,
                step=step,
                gradients=gradients,
                batch=recorded(config, beside, steps + 1 - age),
                age=age,
            )
            for age in range(1, config.past + 1)
            if present(update_path(beside.parent, steps + 1 - age))
        ),
        concentration=Concentration(subject=subject, batch=step.batch),
        blocks=Blocks(subject=subject, step=step),
        words=DecodeTokens(subject=subject, batch=step.batch),
    )
