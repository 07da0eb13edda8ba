"""The check: tokens taken out of the loss, and what that does to the update."""

# Axes: K tokens of the update batch.

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from entrometer.estimators import Estimate, Tables
from entrometer.estimators.scores import TokenColumns, covariance
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import (
    CheckPlan,
    CheckpointPlan,
    RemovalPlan,
    UpdatePlan,
)
from entrometer.experiments.influence.requests import WithoutTokens
from entrometer.experiments.influence.tables import Updated, updated
from entrometer.experiments.influence.tokens import named
from entrometer.experiments.requests import Draw, Forward, Request, Step
from entrometer.experiments.token_influence.halves import OBJECTIVES, by_half, change
from entrometer.runs.columns import read_table
from entrometer.runs.tables.influence import Removal

WAYS = ("influence", "cov", "random")
"""How tokens are chosen: the most draining, the largest covariance, by lot."""


def follow_up(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[CheckpointPlan]:
    """Return the points with the check of every update, if tokens are to be removed.

    Which tokens depends on what the first passes measured. Until the store has all of
    those, any tokens stand for them: the passes cost the same.
    """
    if not config.remove:
        return list(points)
    return [
        replace(
            point,
            updates=tuple(
                replace(u, check=_check(point, u, _chosen(config, point, u, store)))
                for u in point.updates
            ),
        )
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

    def after(step: Step) -> tuple[Forward, ...]:
        return tuple(replace(h, step=step, eta=point.eta) for h in point.here)

    removals = []
    for by, places in tokens.items():
        without = replace(step, loss=WithoutTokens(places=tuple(places.tolist())))
        removals.append(RemovalPlan(by=by, step=without, there=after(without)))
    return CheckPlan(whole=after(step), removals=tuple(removals))


def removals(moved: Updated, check: CheckPlan, store: Path) -> Iterator[Removal]:
    """A row for every way to choose, and for entropy and reward."""
    judge, columns = moved.evaluation.half(1)
    eta = moved.point.eta

    def after(requests: tuple[Forward, ...]) -> Tables:
        tables = read_table(Tables, [r.path(store) for r in requests])
        return Tables(S=tables.S[columns], H=tables.H[columns])

    whole = after(check.whole)
    for removal in check.removals:
        tokens = np.array(_places(removal), dtype=int)
        without = after(removal.there)
        for objective in OBJECTIVES:
            before = change(judge, whole, objective, moved.evaluation)
            observed = change(judge, without, objective, moved.evaluation) - before
            predicted = prediction(moved, tokens, objective, eta)
            yield Removal(
                **named(moved),
                by=removal.by,
                share=tokens.size / moved.alpha.size,
                tokens=tokens.size,
                eta=eta,
                objective=objective,
                **estimate_fields("predicted", predicted),
                **estimate_fields("observed", observed.estimate()),
                whole=before.value,
            )


def prediction(
    moved: Updated, tokens: np.ndarray, objective: str, eta: float
) -> Estimate:
    r"""$-\eta\sum I$ over the tokens, by the odd folds, which did not choose them."""
    taken = moved.parts[objective][tokens].sum(axis=0)
    found = by_half(
        moved.evaluation,
        objective,
        -eta * taken[None],
        -eta * moved.length[tokens].sum(axis=0)[None],
        which=1,
    )
    return found[0]


def _places(removal: RemovalPlan) -> tuple[int, ...]:
    assert isinstance(removal.step.loss, WithoutTokens)
    return removal.step.loss.places
