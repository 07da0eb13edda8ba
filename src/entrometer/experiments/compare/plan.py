"""Passes that a comparison needs, in the order they can run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    named_checkpoints,
    require_rates,
    scored_evaluation,
    step_of,
    subject_of,
)
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.requests import (
    HeldOutForward,
    InterventionInputs,
    InterventionLoss,
)
from entrometer.experiments.compare.variants import MEASURED, Variant, variants
from entrometer.experiments.next_batches.plan import (
    NextBatches,
    next_batches,
    pool,
)
from entrometer.experiments.requests import (
    Concentration,
    Draw,
    Forward,
    Minibatch,
    PolicyAfterStep,
    Recorded,
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
    """Passes that take an intervention's step and measure its effect."""

    variant: Variant
    step: Step
    slope: MomentumProducts
    """First-order effect of the step on every fold."""
    there: HeldOutForward

    def requests(self) -> tuple[Request, ...]:
        """Return all passes, each after those it depends on."""
        return (self.step, self.slope, self.there)


@dataclass(frozen=True, kw_only=True)
class PointPlan:
    """Passes for a minibatch of an update of a checkpoint."""

    checkpoint: str
    update: str
    minibatch: str
    steps: int
    """Optimizer steps so far."""
    progress: float
    """Fraction of the training that is done."""
    eta: float
    share: float
    """Fraction of the step due to the minibatch; the rest is momentum."""
    subject: Subject
    """The policy that is updated: after plain steps on the earlier minibatches."""
    before: tuple[Request, ...]
    """Sampling of the update batch, and plain steps on the earlier minibatches."""
    seen: InterventionInputs  #: Tables that the interventions' losses read.
    plain: Step
    here: tuple[Forward, ...]
    gradients: tuple[FoldGradient, ...]
    adjoint: Adjoint
    carried: MomentumProducts  #: Effects of the step, momentum, weight decay.
    variants: tuple[Variant, ...]
    """All strengths of all interventions; plain is the first."""
    trials: tuple[Trial, ...] = ()
    """Variants whose step is taken; plain is the first. Filled in by `follow_up`."""
    next_batches: NextBatches | None = None
    """Tried variants on several batches; None for a later minibatch."""
    ahead: tuple[Request, ...] = ()
    """Passes whose tables the losses read, of each of these batches."""

    @property
    def name(self) -> str:
        """Checkpoint, update and minibatch."""
        return f"{self.checkpoint}, {self.update}, {self.minibatch}"

    def requests(self) -> Iterator[Request]:
        """Yield the passes that all interventions share, then those of the trials."""
        # Later minibatches are measured at the policy after the steps before them.
        yield from self.before
        yield from self.seen.requests()
        yield self.plain
        yield from (h.rollouts for h in self.here)
        yield from self.here
        yield from self.gradients
        yield from (self.adjoint, self.carried)
        for trial in self.trials:
            yield from trial.requests()
        if self.next_batches is not None:
            for batch in self.next_batches.batches:
                yield from batch.requests()
            yield from self.ahead
            yield from self.next_batches.requests()


def plan(config: CompareConfig) -> list[PointPlan]:
    """Return a plan per checkpoint, update and minibatch; loads no model."""
    return [
        _point(config, path, name, update, part)
        for name, path in named_checkpoints(config)
        for update in config.updates
        for part in config.parts
    ]


def _point(
    config: CompareConfig, path: Path, name: str, update: str, part: tuple[int, int]
) -> PointPlan:
    # First, because it compares the checkpoint with its manifest.
    start = subject_of(config, path)
    schedule = read_schedule(path)
    steps, learning_rate = schedule.step, schedule.learning_rate
    eta = config.eta or learning_rate
    require_rates(path, learning_rate, [eta])
    whole = step_of(config, start, update, steps)
    chosen = variants(config.interventions, whole.batch.log_probs)
    number, parts = part
    if whole.batch.prompts < parts:
        raise InvalidValue(
            f"expected at least {parts} prompts in the update, one per minibatch, got "
            f"{whole.batch.prompts}; use a smaller J in --minibatches, or more prompts"
        )
    before: list[Request] = [whole.batch] if isinstance(whole.batch, Draw) else []
    text, subject = intervention(PLAIN).text, start
    for earlier in range(1, number):
        batch = _minibatch(whole.batch, (earlier - 1) % parts + 1, parts)
        seen = _inputs(subject, start, batch)
        step = _treated(subject, whole, batch, seen, text, keep=config.keep_loss)
        # At the training's rate even if --eta is smaller: the rate of these steps is
        # what makes the later minibatch as off-policy as it is in training.
        advanced = PolicyAfterStep(subject=subject, step=step, eta=learning_rate or eta)
        before += [*seen.requests(), advanced]
        subject = replace(start, advanced=advanced)
    batch = _minibatch(whole.batch, (number - 1) % parts + 1, parts)
    seen = _inputs(subject, start, batch)
    if any("concentration" in v.intervention.remedy.needs for v in chosen):
        concentration = Concentration(subject=subject, batch=batch)
        seen = replace(seen, concentration=concentration)
    plain = _treated(subject, whole, batch, seen, text, keep=config.keep_loss)
    # Sampled at the policy that is updated: slopes are on-policy estimates there.
    gradients = folded(subject, scored_evaluation(config, subject), config.folds)
    ahead: NextBatches | None = None
    inputs: tuple[Request, ...] = ()
    # The verdict is on whole updates: a later minibatch is at another policy for every
    # batch, and one evaluation batch cannot serve them all.
    if config.batches > 1 and part == (1, 1) and update == config.updates[0]:
        ahead, inputs = _ahead(config, start, steps, chosen, gradients)
    return PointPlan(
        checkpoint=name,
        update=update,
        minibatch=f"{number}/{parts}",
        steps=steps + number - 1,
        progress=read_progress(path),
        eta=eta,
        # AdamW's bias correction depends on the number of steps.
        share=schedule._replace(step=steps + number - 1).share,
        subject=subject,
        before=tuple(before),
        seen=seen,
        plain=plain,
        here=gradients[0].here,
        gradients=gradients,
        adjoint=Adjoint(subject=subject, step=plain, gradients=gradients),
        carried=MomentumProducts(subject=subject, step=plain, gradients=gradients),
        variants=chosen,
        next_batches=ahead,
        ahead=inputs,
    )


def _ahead(
    config: CompareConfig,
    subject: Subject,
    steps: int,
    chosen: Sequence[Variant],
    gradients: tuple[FoldGradient, ...],
) -> tuple[NextBatches | None, tuple[Request, ...]]:
    """Return the passes for the tried variants on several batches, and their inputs."""
    # What the losses that were asked for by name need, sampled batches must have too.
    needs = {
        n for v in chosen if config.interventions for n in v.intervention.remedy.needs
    }
    batches = pool(
        config, subject, config.updates[0], steps, needs=frozenset(needs) - MEASURED
    )
    seen = [_inputs(subject, subject, batch.source) for batch in batches]
    # A choice of tokens by influence would need that of every batch.
    known = frozenset({"concentration"}).union(
        frozenset.intersection(*(b.source.log_probs for b in batches))
    )
    tried = [
        v.intervention
        for v in chosen
        if v.tried and not v.intervention.remedy.lacks(known)
    ]
    if any("concentration" in x.remedy.needs for x in tried):
        seen = [
            replace(x, concentration=Concentration(subject=subject, batch=b.source))
            for x, b in zip(seen, batches, strict=True)
        ]
    keep = config.keep_loss
    losses = {
        str(x): [_loss(subject, s, x.text, keep=keep) for s in seen] for x in tried
    }
    planned = next_batches(config, subject, batches, losses, gradients)
    return planned, tuple(r for x in seen for r in x.requests()) if planned else ()


def _minibatch(batch: Source, part: int, parts: int) -> Source:
    # The whole batch stays the request it is, so that its passes are shared.
    if parts == 1 or not isinstance(batch, Draw | Recorded):
        return batch
    return Minibatch(batch=batch, part=part, parts=parts)


def _inputs(subject: Subject, start: Subject, batch: Source) -> InterventionInputs:
    # At the first minibatch both are the same request, which runs once.
    here, old = (UpdateTables(subject=s, batch=batch) for s in (subject, start))
    return InterventionInputs(here=here, old=old)


def _treated(
    subject: Subject,
    whole: Step,
    batch: Source,
    seen: InterventionInputs,
    text: str,
    adjoint: Adjoint | None = None,
    *,
    keep: bool,
) -> Step:
    """Return the step that AdamW makes under an intervention."""
    loss = _loss(subject, seen, text, adjoint, keep=keep)
    limit = whole.max_grad_norm
    return Step(subject=subject, batch=batch, max_grad_norm=limit, loss=loss)


def _loss(
    subject: Subject,
    seen: InterventionInputs,
    text: str,
    adjoint: Adjoint | None = None,
    *,
    keep: bool,
) -> InterventionLoss:
    remedy = intervention(text).remedy
    # Only what the loss reads: its content key must not depend on anything else.
    if "concentration" not in remedy.needs:
        seen = replace(seen, concentration=None)
    return InterventionLoss(
        intervention=text,
        inputs=seen,
        adjoint=adjoint if "influence" in remedy.needs else None,
        code=remedy.code,
        progress=read_progress(Path(subject.path)) if remedy.scheduled else 0.0,
        keep_loss=keep,
    )


def follow_up(
    config: CompareConfig, points: Sequence[PointPlan], store: Path
) -> list[PointPlan]:
    """Return the plans with the steps to take added; as they are without `truth`.

    An intervention that gives every token its weight under plain Dr-GRPO is not run:
    plain's step stands for it. Which ones those are is known once the first passes are
    in the store; before, they are taken to be those that act on the ratio alone, where
    every ratio is 1.
    """
    if not config.truth:
        return [*points]
    return [_with_trials(config, point, store) for point in points]


def _with_trials(config: CompareConfig, point: PointPlan, store: Path) -> PointPlan:
    trials = [_trial(config, point, v) for v in point.variants if v.tried]
    first = [*point.before, *point.seen.requests(), point.adjoint]
    if all(request.path(store).exists() for request in first):
        plain = trials[0].step.read_batch(store)
        trials = [
            trial
            if changed(trial.step.read_batch(store), plain)
            # Plain's own requests, which run once.
            else replace(trials[0], variant=trial.variant)
            for trial in trials
        ]
    elif point.subject.advanced is None:
        # Every ratio is 1 at the policy that sampled.
        acting = [t for t in trials[1:] if t.variant.intervention.remedy.on_policy]
        trials = [trials[0], *acting]
    return replace(point, trials=tuple(trials))


def _trial(config: CompareConfig, point: PointPlan, variant: Variant) -> Trial:
    subject, plain, text = point.subject, point.plain, variant.intervention.text
    step = _treated(
        subject,
        plain,
        plain.batch,
        point.seen,
        text,
        point.adjoint,
        keep=config.keep_loss,
    )
    slope = MomentumProducts(subject=subject, step=step, gradients=point.gradients)
    there = HeldOutForward(
        subject=subject, gradients=point.gradients[0], step=step, eta=point.eta
    )
    return Trial(variant=variant, step=step, slope=slope, there=there)


def changed(batch: Batch, plain: Batch) -> float:
    """Return the fraction of counted tokens whose weights differ from plain's."""
    return float(batch.differing(plain)[plain.counted].mean())
