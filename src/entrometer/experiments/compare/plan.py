"""Which passes a comparison needs, in the order they can be made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    evaluation,
    require_rates,
    short_names,
    step_of,
    subject_of,
)
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.requests import (
    HeldOutForward,
    InterventionInputs,
    InterventionLoss,
)
from entrometer.experiments.compare.variants import Variant, variants
from entrometer.experiments.requests import (
    Concentration,
    Draw,
    Forward,
    Minibatch,
    PolicyAfterStep,
    Request,
    Source,
    Step,
    Subject,
    UpdateTables,
)
from entrometer.experiments.token_influence.requests import (
    Adjoint,
    FoldGradient,
    MomentumProducts,
    folded,
)
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import PLAIN, intervention
from entrometer.policy.checkpoint import read_progress, read_schedule


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The passes that show what an intervention does."""

    variant: Variant
    step: Step
    slope: MomentumProducts
    """What the step, formed anew, does to every fold."""

    there: HeldOutForward

    def requests(self) -> Iterator[Request]:
        """All of them."""
        yield from (self.step, self.slope, self.there)


@dataclass(frozen=True, kw_only=True)
class PointPlan:
    """The passes for a minibatch of an update of a checkpoint."""

    checkpoint: str
    update: str
    minibatch: str
    steps: int
    """Optimizer steps behind it."""

    progress: float
    """Share of the training that is behind it."""

    eta: float
    share: float
    """Share of the minibatch in its step: the rest is momentum."""

    subject: Subject
    """The policy that is updated: after the plain steps on the parts before."""

    before: tuple[Request, ...]
    """Those steps, and the update batch."""

    seen: InterventionInputs
    plain: Step
    here: tuple[Forward, ...]
    gradients: tuple[FoldGradient, ...]
    adjoint: Adjoint
    carried: MomentumProducts
    variants: tuple[Variant, ...]
    """All strengths of all interventions; plain is the first."""

    trials: tuple[Trial, ...] = ()
    """Variants whose step is taken; plain is the first. Filled in by `follow_up`."""

    @property
    def name(self) -> str:
        """Checkpoint, update and minibatch."""
        return f"{self.checkpoint}, {self.update}, {self.minibatch}"

    def requests(self) -> Iterator[Request]:
        """Yield the passes that all interventions share, then those of the trials."""
        yield from self.before
        yield from self.seen.requests()
        yield self.plain
        yield from (h.rollouts for h in self.here)
        yield from self.here
        yield from self.gradients
        yield from (self.adjoint, self.carried)
        for trial in self.trials:
            yield from trial.requests()


def plan(config: CompareConfig) -> list[PointPlan]:
    """The passes of a comparison, by point. Reads files, and loads no model."""
    names = short_names(config.checkpoints)
    return [
        _point(config, Path(path), name, update, part)
        for path, name in zip(config.checkpoints, names, strict=True)
        for update in config.updates
        for part in config.parts
    ]


def _point(
    config: CompareConfig, path: Path, name: str, update: str, part: tuple[int, int]
) -> PointPlan:
    # First: it compares the checkpoint with its manifest.
    start = subject_of(config, path)
    schedule = read_schedule(path)
    steps, learning_rate = schedule.step, schedule.learning_rate
    eta = config.eta or learning_rate
    require_rates(path, learning_rate, [eta])
    chosen = variants(config.interventions)
    whole = step_of(config, start, update, steps)
    _require_parts(whole.batch, part[1])
    before: list[Request] = []
    if isinstance(whole.batch, Draw):
        before.append(whole.batch)
    subject, (own, parts) = start, part
    for number in range(1, own):
        batch = _part(whole.batch, number, parts)
        seen = _inputs(subject, start, batch, concentrated=False)
        step = _treated(subject, whole, batch, seen, intervention(PLAIN).text)
        # A smaller one that is asked for must not make the batch less stale.
        advanced = PolicyAfterStep(subject=subject, step=step, eta=learning_rate or eta)
        before += [*seen.requests(), advanced]
        subject = replace(start, advanced=advanced)
    batch = _part(whole.batch, own, parts)
    needs = {need for v in chosen for need in v.intervention.remedy.needs}
    seen = _inputs(subject, start, batch, concentrated="concentration" in needs)
    plain = _treated(subject, whole, batch, seen, intervention(PLAIN).text)
    gradients = folded(subject, evaluation(config, subject), config.folds)
    adjoint = Adjoint(subject=subject, step=plain, gradients=gradients)

    return PointPlan(
        checkpoint=name,
        update=update,
        minibatch=f"{own}/{parts}",
        steps=steps + own - 1,
        progress=read_progress(path),
        eta=eta,
        share=schedule._replace(step=steps + own - 1).share,
        subject=subject,
        before=tuple(before),
        seen=seen,
        plain=plain,
        here=gradients[0].here,
        gradients=gradients,
        adjoint=adjoint,
        carried=MomentumProducts(subject=subject, step=plain, gradients=gradients),
        variants=chosen,
    )


def _require_parts(batch: Source, parts: int) -> None:
    if batch.prompts < parts:
        raise InvalidValue(
            f"expected at least {parts} prompts in the update, one a minibatch, got "
            f"{batch.prompts}; take fewer --minibatches, or a larger update"
        )


def _part(batch: Source, part: int, parts: int) -> Source:
    if parts == 1 or isinstance(batch, Minibatch):
        return batch
    return Minibatch(batch=batch, part=part, parts=parts)


def _inputs(
    subject: Subject, start: Subject, batch: Source, *, concentrated: bool
) -> InterventionInputs:
    return InterventionInputs(
        here=UpdateTables(subject=subject, batch=batch),
        old=UpdateTables(subject=start, batch=batch),
        concentration=(
            Concentration(subject=subject, batch=batch) if concentrated else None
        ),
    )


def _treated(
    subject: Subject,
    whole: Step,
    batch: Source,
    seen: InterventionInputs,
    text: str,
    adjoint: Adjoint | None = None,
) -> Step:
    """Return the step that AdamW makes under an intervention."""
    remedy = intervention(text).remedy
    # Only what the loss reads: its key must not depend on anything else.
    inputs = (
        seen if "concentration" in remedy.needs else replace(seen, concentration=None)
    )
    loss = InterventionLoss(
        intervention=text,
        inputs=inputs,
        adjoint=adjoint if "influence" in remedy.needs else None,
        code=remedy.code,
        progress=read_progress(Path(subject.path)) if remedy.scheduled else 0.0,
    )
    return Step(
        subject=subject, batch=batch, max_grad_norm=whole.max_grad_norm, loss=loss
    )


def follow_up(
    config: CompareConfig, points: Sequence[PointPlan], store: Path
) -> list[PointPlan]:
    """Return the points with the steps that are to be taken.

    An intervention that gives every token the weight that plain Dr-GRPO gives it is not
    run again: plain's own step stands for it. Which ones those are is known once the
    first passes are in the store; before, interventions that act on the ratio alone are
    expected to be among them where every ratio is 1.
    """
    return [_with_trials(p, store) if config.truth else p for p in points]


def _with_trials(point: PointPlan, store: Path) -> PointPlan:
    tried = [v for v in point.variants if v.tried]
    trials = [_trial(point, variant) for variant in tried]
    first = requests_needed(point)
    if all(request.path(store).exists() for request in first):
        plain = trials[0].step.read_batch(store)
        trials = [
            trial
            if changed(trial.step.read_batch(store), plain)
            else replace(trials[0], variant=trial.variant)
            for trial in trials
        ]
    elif point.subject.advanced is None:
        acting = [t for t in trials[1:] if t.variant.intervention.remedy.on_policy]
        trials = [trials[0], *acting]
    return replace(point, trials=tuple(trials))


def requests_needed(point: PointPlan) -> list[Request]:
    """Return the passes that decide which tokens an intervention treats differently."""
    return [*point.before, *point.seen.requests(), point.adjoint]


def _trial(point: PointPlan, variant: Variant) -> Trial:
    subject, gradients = point.subject, point.gradients
    step = _treated(
        subject,
        point.plain,
        point.plain.batch,
        point.seen,
        variant.intervention.text,
        point.adjoint,
    )
    return Trial(
        variant=variant,
        step=step,
        slope=MomentumProducts(subject=subject, step=step, gradients=gradients),
        there=HeldOutForward(
            subject=subject, gradients=gradients[0], step=step, eta=point.eta
        ),
    )


_ALIKE = 1e-6
"""Relative difference of token weights below which they count as equal."""


def changed(batch: Batch, plain: Batch) -> float:
    """Return the share of counted tokens whose weights differ from plain Dr-GRPO's."""
    limit = _ALIKE * max(np.abs(plain.alpha).max(), np.abs(batch.alpha).max())
    differs = (np.abs(batch.alpha - plain.alpha) > limit) | (batch.gamma != plain.gamma)
    return float(differs[plain.counted].mean())
