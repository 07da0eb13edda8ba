"""Which passes a comparison needs, in the order they can be made."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    evaluation,
    require_rates,
    short_names,
    step_of,
    subject_of,
)
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.experiments.comparison.requests import (
    Advanced,
    Judged,
    Particular,
    Seen,
    Treated,
    UpdateTables,
)
from entrometer.experiments.comparison.variants import Variant, variants
from entrometer.experiments.influence.over_update import Concentrated
from entrometer.experiments.influence.requests import (
    Adjoint,
    Carried,
    FoldGradient,
    folded,
)
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Minibatch,
    Request,
    Source,
    Step,
    Subject,
)
from entrometer.interventions import PLAIN, intervention
from entrometer.policy.checkpoint import read_progress, read_schedule


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The passes that show what an intervention does."""

    variant: Variant
    step: Treated
    slope: Carried
    """What the step, formed anew, does to every fold."""

    there: Judged

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

    seen: Seen
    plain: Treated
    here: tuple[Forward, ...]
    gradients: tuple[FoldGradient, ...]
    adjoint: Adjoint
    carried: Carried
    variants: tuple[Variant, ...]
    """All strengths of all interventions; plain is the first."""

    trials: tuple[Trial, ...]
    """Those whose truth is measured; plain is the first."""

    def shared(self) -> Iterator[Request]:
        """What one measurement of influence needs, and the interventions share."""
        yield from self.before
        yield from self.seen.requests()
        yield self.plain
        yield from (h.rollouts for h in self.here)
        yield from self.here
        yield from self.gradients
        yield from (self.adjoint, self.carried)

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        yield from self.shared()
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
        seen = _seen(subject, start, batch, concentrated=False)
        step = _treated(subject, whole, batch, seen, intervention(PLAIN).text)
        # A smaller one that is asked for must not make the batch less stale.
        advanced = Advanced(subject=subject, step=step, eta=learning_rate or eta)
        before += [*seen.requests(), advanced]
        subject = replace(start, advanced=advanced)
    batch = _part(whole.batch, own, parts)
    needs = {need for v in chosen for need in v.intervention.remedy.needs}
    seen = _seen(subject, start, batch, concentrated="concentration" in needs)
    plain = _treated(subject, whole, batch, seen, intervention(PLAIN).text)
    gradients = folded(subject, evaluation(config, subject), config.folds)
    adjoint = Adjoint(subject=subject, step=plain, gradients=gradients)

    def trial(variant: Variant) -> Trial:
        step = _treated(subject, whole, batch, seen, variant.intervention.text, adjoint)
        return Trial(
            variant=variant,
            step=step,
            slope=Carried(subject=subject, step=step, gradients=gradients),
            there=Judged(subject=subject, gradients=gradients[0], step=step, eta=eta),
        )

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
        carried=Carried(subject=subject, step=plain, gradients=gradients),
        variants=chosen,
        trials=tuple(trial(v) for v in chosen if v.tried) if config.truth else (),
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


def _seen(
    subject: Subject, start: Subject, batch: Source, *, concentrated: bool
) -> Seen:
    return Seen(
        here=UpdateTables(subject=subject, batch=batch),
        old=UpdateTables(subject=start, batch=batch),
        concentration=(
            Concentrated(subject=subject, batch=batch) if concentrated else None
        ),
    )


def _treated(
    subject: Subject,
    whole: Step,
    batch: Source,
    seen: Seen,
    text: str,
    adjoint: Adjoint | None = None,
) -> Treated:
    remedy = intervention(text).remedy
    own: dict[str, Any] = {
        "subject": subject,
        "batch": batch,
        "max_grad_norm": whole.max_grad_norm,
        "intervention": text,
        "here": seen.here,
        "old": seen.old,
        "concentration": (
            seen.concentration if "concentration" in remedy.needs else None
        ),
        "adjoint": adjoint if "influence" in remedy.needs else None,
    }
    if remedy.code or remedy.scheduled:
        progress = read_progress(subject.path) if remedy.scheduled else 0.0
        return Particular(**own, code=remedy.code, progress=progress)
    return Treated(**own)
