"""Passes that a measurement of influence needs, in the order they can run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entrometer.experiments.batches import (
    named_checkpoints,
    recorded,
    require_rates,
    scored_evaluation,
    step_of,
    subject_of,
)
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.requests import (
    Blocks,
    DecodeTokens,
    PastBatchProducts,
)
from entrometer.experiments.next_batches.plan import NextBatches, plain_batches
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
class TakenStep:
    """A step of the check by removal, and passes over the evaluation batch after it."""

    by: str
    """How the tokens to remove were chosen; empty for the step that removes none."""
    step: Step
    there: tuple[Forward, ...]


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """Passes for one update of a checkpoint."""

    name: str
    step: Step
    adjoint: Adjoint
    carried: MomentumProducts  #: Effects of the step, momentum, weight decay.
    past: tuple[PastBatchProducts, ...]
    concentration: Concentration
    blocks: Blocks
    texts: DecodeTokens
    check: tuple[TakenStep, ...] = ()
    """The whole step, then steps without some tokens; added by `follow_up`."""

    def requests(self) -> Iterator[Request]:
        """Yield the passes to run after the update's step and the folds' gradients."""
        yield from (self.adjoint, self.carried, *self.past)
        yield from (self.concentration, self.blocks, self.texts)
        for taken in self.check:
            yield from (taken.step, *taken.there)


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """Passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps of the training so far."""
    learning_rate: float
    """Learning rate of the training."""
    eta: float
    """Learning rate of the check by removal."""
    subject: Subject
    here: tuple[Forward, ...]
    """The evaluation batch at the checkpoint, in shards."""
    gradients: tuple[FoldGradient, ...]
    updates: tuple[UpdatePlan, ...]
    next_batches: NextBatches | None

    def read_batch(self, store: Path) -> Evaluation:
        """Return the evaluation batch with log-probs S and entropies H, in folds."""
        return self.gradients[0].read_batch(store)

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint, as the rows of its next batches have it."""
        return self.name

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        batches = [u.step.batch for u in self.updates]
        # Sampling first, because every other pass reads its responses.
        yield from (h.rollouts for h in self.here)
        yield from (batch for batch in batches if isinstance(batch, Draw))
        yield from self.here
        yield from (update.step for update in self.updates)
        yield from self.gradients
        for update in self.updates:
            yield from update.requests()
        if self.next_batches is not None:
            yield from self.next_batches.requests()


def plan(config: InfluenceConfig) -> list[CheckpointPlan]:
    """Return the passes by checkpoint; reads files, and loads no model."""
    checkpoints = named_checkpoints(config)
    return [plan_checkpoint(config, path, name) for name, path in checkpoints]


def plan_checkpoint(config: InfluenceConfig, path: Path, name: str) -> CheckpointPlan:
    """Return the passes for one of the checkpoints, whose tables have this name."""
    subject = subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    eta = config.eta or learning_rate
    # Slopes need no learning rate; only the check takes a step.
    if config.remove:
        require_rates(path, learning_rate, [eta])
    gradients = folded(subject, scored_evaluation(config, subject), config.folds)
    return CheckpointPlan(
        name=name,
        steps=steps,
        learning_rate=learning_rate,
        eta=eta,
        subject=subject,
        here=gradients[0].here,
        gradients=gradients,
        updates=tuple(
            _update(config, name, step_of(config, subject, name, steps), gradients)
            for name in config.updates
        ),
        next_batches=plain_batches(config, subject, steps, gradients),
    )


def _update(
    config: InfluenceConfig, name: str, step: Step, gradients: tuple[FoldGradient, ...]
) -> UpdatePlan:
    subject, checkpoint = step.subject, Path(step.subject.path)
    # Batches are recorded under the number of the step that used them.
    next_step = read_schedule(checkpoint).step + 1
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
                batch=recorded(config, checkpoint, next_step - age),
                age=age,
            )
            for age in range(1, config.past + 1)
            # A training need not have recorded every step: what is absent is "older".
            if present(update_path(checkpoint.parent, next_step - age))
        ),
        concentration=Concentration(subject=subject, batch=step.batch),
        blocks=Blocks(subject=subject, step=step),
        texts=DecodeTokens(subject=subject, batch=step.batch),
    )
