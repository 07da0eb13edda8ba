"""The check: steps without some tokens, and whether influence predicts their effect."""

# Axes: K tokens of the update batch.

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from entrometer.estimators import Estimate, Tables
from entrometer.estimators.scores import TokenColumns, covariance
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan, TakenStep, UpdatePlan
from entrometer.experiments.influence.requests import WithoutTokens
from entrometer.experiments.influence.tables import Updated, updated
from entrometer.experiments.requests import Draw, Request
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.token_influence.halves import OBJECTIVES, by_half, change
from entrometer.runs.columns import read_table
from entrometer.runs.tables.influence import Removal

WAYS = ("influence", "cov", "random")
"""How tokens are chosen: lowest influence on entropy, largest covariance, at random."""


def follow_up(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[CheckpointPlan]:
    """Return the plans with the check by removal added; as they are if `remove` is 0.

    The choice of tokens depends on the first passes. Until the store has all of those,
    arbitrary tokens stand for the choice: the passes cost the same.
    """
    if not config.remove:
        return list(points)

    def checked(point: CheckpointPlan, update: UpdatePlan) -> UpdatePlan:
        tokens = _tokens(config, point, update, store)
        return replace(update, check=_check(point, update, tokens))

    return [replace(p, updates=tuple(checked(p, u) for u in p.updates)) for p in points]


def chosen(config: InfluenceConfig, update: Updated) -> dict[str, np.ndarray]:
    """Return the places of tokens to remove, by criterion; influence by even folds."""
    batch = update.batch
    # Removing a token of weight 0 would change nothing.
    candidates = np.flatnonzero(batch.alpha)
    count = min(candidates.size, max(1, round(config.remove * batch.alpha.size)))
    # By the even folds alone: on the odd ones the choice has no selection bias.
    even = update.parts["entropy"][:, ::2].sum(axis=1)
    unread = [np.zeros_like(batch.alpha)] * 4
    columns = TokenColumns(batch.advantage, update.here.S, update.here.H, *unread)
    # Stream 2, apart from the evaluation batch (0) and update batches (1).
    rng = np.random.default_rng([2, config.seed])
    # Stable sorts, so that ties do not depend on the platform.
    orders = {
        "influence": np.argsort(even[candidates], kind="stable"),
        "cov": np.argsort(-covariance(columns)[candidates], kind="stable"),
        "random": rng.permutation(candidates.size),
    }
    return {by: np.sort(candidates[order[:count]]) for by, order in orders.items()}


def _tokens(
    config: InfluenceConfig, point: CheckpointPlan, update: UpdatePlan, store: Path
) -> dict[str, np.ndarray]:
    needed: list[Request] = [r for h in point.here for r in (h.rollouts, h)]
    needed += [update.adjoint, update.texts]
    if isinstance(update.step.batch, Draw):
        needed.append(update.step.batch)
    if not all(request.path(store).exists() for request in needed):
        return {by: np.array([number]) for number, by in enumerate(WAYS)}
    return chosen(config, updated(point, update, point.read_batch(store), store))


def _check(
    point: CheckpointPlan, update: UpdatePlan, tokens: dict[str, np.ndarray]
) -> tuple[TakenStep, ...]:
    # The whole step first: every removal is compared with it.
    steps = {"": update.step}
    for by, places in tokens.items():
        loss = WithoutTokens(places=tuple(places.tolist()))
        steps[by] = replace(update.step, loss=loss)
    return tuple(
        TakenStep(
            by=by,
            step=step,
            there=tuple(replace(h, step=step, eta=point.eta) for h in point.here),
        )
        for by, step in steps.items()
    )


def removals(update: Updated, store: Path) -> Iterator[Removal]:
    """Yield each removal's predicted and observed effect, on entropy and on reward."""
    held_out, columns = update.evaluation.half(1)
    eta = update.point.eta
    after = {}
    for taken in update.plan.check:
        tables = read_table(Tables, [request.path(store) for request in taken.there])
        after[taken.by] = Tables(S=tables.S[columns], H=tables.H[columns])
    for removal in update.plan.check[1:]:
        assert isinstance(removal.step.loss, WithoutTokens)
        tokens = np.array(removal.step.loss.places, dtype=int)
        for objective in OBJECTIVES:
            # Linearised, so that the difference keeps the pairing of the prompts.
            complete, reduced = (
                change(held_out, after[by], objective, update.evaluation)
                for by in ("", removal.by)
            )
            predicted = prediction(update, tokens, objective, eta)
            yield Removal(
                **update.names,
                by=removal.by,
                share=tokens.size / update.batch.alpha.size,
                tokens=tokens.size,
                eta=eta,
                objective=objective,
                **estimate_fields("predicted", predicted),
                **estimate_fields("observed", (reduced - complete).estimate()),
                whole=complete.value,
            )


def prediction(
    update: Updated, tokens: np.ndarray, objective: str, eta: float
) -> Estimate:
    r"""Return $-\eta\sum I$, the change predicted for removing tokens, by odd folds."""
    parts, length = (
        -eta * columns[tokens].sum(axis=0)[None]
        for columns in (update.parts[objective], update.length)
    )
    return by_half(update.evaluation, objective, parts, length, which=1)[0]
