"""The check: tokens taken out of the loss, and what that does to the update."""

# Axes: K tokens of the update batch.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entrometer.estimators.scores import TokenColumns, covariance
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.over_update import StepWithout
from entrometer.experiments.influence.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.influence.tables import Updated, updated
from entrometer.experiments.requests import Draw, Forward, Request

WAYS = ("influence", "cov", "random")
"""How tokens are chosen: the most draining, the largest covariance, by lot."""


@dataclass(frozen=True, kw_only=True)
class RemovalPlan:
    """The passes for tokens that are taken out in one way."""

    by: str
    step: StepWithout
    there: tuple[Forward, ...]
    """The evaluation batch after the step without them."""


@dataclass(frozen=True, kw_only=True)
class CheckPlan:
    """The passes of the check of one update."""

    update: UpdatePlan
    whole: tuple[Forward, ...]
    """The evaluation batch after the whole step."""

    removals: tuple[RemovalPlan, ...]

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        yield from self.whole
        for removal in self.removals:
            yield removal.step
            yield from removal.there


def checks(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[list[CheckPlan]]:
    """The checks of every update, by checkpoint.

    Which tokens are taken out depends on what the first passes found; where the store
    has not all of them, any tokens stand for them: the passes cost the same.
    """
    if not config.remove:
        return [[] for _ in points]
    return [
        [
            _check(point, update, _chosen(config, point, update, store))
            for update in point.updates
        ]
        for point in points
    ]


def chosen(config: InfluenceConfig, moved: Updated) -> dict[str, np.ndarray]:
    """Tokens to take out, in every way, by what the even folds say."""
    candidates = np.flatnonzero(moved.alpha)
    count = min(candidates.size, max(1, round(config.remove * moved.alpha.size)))
    even = moved.parts["entropy"][:, ::2].sum(axis=1)
    zeros = np.zeros_like(moved.alpha)
    seen = TokenColumns(
        moved.advantage, moved.here.S, moved.here.H, zeros, zeros, zeros, zeros
    )
    rng = np.random.default_rng([2, config.seed])
    first = {
        "influence": np.argsort(even[candidates], kind="stable"),
        "cov": np.argsort(-covariance(seen)[candidates], kind="stable"),
        "random": rng.permutation(candidates.size),
    }
    return {by: np.sort(candidates[order[:count]]) for by, order in first.items()}


def _chosen(
    config: InfluenceConfig, point: CheckpointPlan, update: UpdatePlan, store: Path
) -> dict[str, np.ndarray]:
    needed: list[Request] = [r for h in point.here for r in (h.rollouts, h)]
    needed += [update.adjoint, update.words]
    if isinstance(update.step.batch, Draw):
        needed.append(update.step.batch)
    if not all(request.path(store).exists() for request in needed):
        return {by: np.array([number]) for number, by in enumerate(WAYS)}
    batch = point.read_batch(store)
    return chosen(config, updated(point, update, batch, store))


def _check(
    point: CheckpointPlan, update: UpdatePlan, tokens: dict[str, np.ndarray]
) -> CheckPlan:
    step = update.step

    def after(step: StepWithout | None) -> tuple[Forward, ...]:
        return tuple(
            replace(h, step=step or update.step, eta=point.eta) for h in point.here
        )

    removals = []
    for by, places in tokens.items():
        without = StepWithout(
            subject=step.subject,
            batch=step.batch,
            max_grad_norm=step.max_grad_norm,
            without=tuple(places.tolist()),
        )
        removals.append(RemovalPlan(by=by, step=without, there=after(without)))
    return CheckPlan(update=update, whole=after(None), removals=tuple(removals))
