"""How well cheap scores of tokens and of responses rank what was measured."""

# Axes: K tokens, N responses, M scores.

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from entrometer.estimators.scores import (
    BOOTSTRAPS,
    FOLDS,
    SCORES,
    Sees,
    TokenColumns,
    held_out_predictions,
    rankings,
    top_found,
)
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.influence.tables import Updated
from entrometer.experiments.influence.tokens import named
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.influence import Diagonal, Score


def scores(moved: Updated, seed: int, store: Path) -> Iterator[Score]:
    """Every score at both levels, and all of them together."""
    r = moved.responses
    columns = token_columns(moved, store)
    by_token = {name: f(columns) for name, (f, _) in SCORES.items()}
    I_h, I_J = (moved.parts[x].sum(axis=1) for x in ("entropy", "reward"))
    group = r.spread(moved.group)
    yield from _judged(
        moved, "token", by_token, I_h, I_J, group, moved.alpha != 0, seed
    )
    first = r.start[:-1]
    by_response = {}
    for name, (_, sees) in SCORES.items():
        column = by_token[name]
        if sees is Sees.ADVANTAGE:
            by_response[name] = r.total(column)
        elif sees is Sees.POLICY:
            by_response[name] = r.total(moved.alpha * column)
        elif sees is Sees.RESPONSE:
            by_response[name] = column[first]
    by_response["diagonal kernel"] = read_columns(moved.plan.blocks.path(store))["self"]
    pulled = r.total(np.abs(moved.alpha)) != 0
    yield from _judged(
        moved,
        "response",
        by_response,
        r.total(I_h),
        r.total(I_J),
        moved.group,
        pulled,
        seed,
    )


def token_columns(moved: Updated, store: Path) -> TokenColumns:
    """What scores may see of the tokens of an update."""
    r, reward = moved.responses, moved.rollouts.reward
    rate = np.bincount(moved.group, reward) / np.bincount(moved.group)
    return TokenColumns(
        A=moved.advantage,
        S=moved.here.S,
        H=moved.here.H,
        position=(r.position - 1).astype(np.float64),
        length=r.spread(r.length.astype(np.float64)),
        pass_rate=r.spread(rate[moved.group]),
        surplus=read_columns(moved.plan.concentration.path(store))["surplus"],
    )


def diagonals(moved: Updated, store: Path) -> Iterator[Diagonal]:
    """What a diagonal kernel carries of the batch's slope on itself."""
    found = read_columns(moved.plan.blocks.path(store))
    size = np.bincount(moved.group)
    alike, count = int((size**2).sum()), int(size.sum())
    pairs = {"self": count, "prompt": alike - count, "other": count**2 - alike}
    for block, column in found.items():
        yield Diagonal(
            **named(moved),
            block=block,
            value=float(column.sum()),
            pairs=pairs[block],
        )


def _judged(
    moved: Updated,
    level: str,
    by_name: dict[str, np.ndarray],
    I_h: np.ndarray,
    I_J: np.ndarray,
    group: np.ndarray,
    pulled: np.ndarray,
    seed: int,
) -> Iterator[Score]:
    """Rankings of what the loss pulls on: all else has no influence to be ranked."""
    if not pulled.any():
        return
    table = np.stack(list(by_name.values()))[:, pulled]
    I_h, I_J, group = I_h[pulled], I_J[pulled], group[pulled]
    small = np.abs(I_J) < np.median(np.abs(I_J))
    # Sizes alone say what moves entropy and not reward.
    cases = {
        "entropy": (table, I_h),
        "entropy alone": (np.abs(table), np.abs(I_h) * small),
    }
    for target, (own, values) in cases.items():
        by_rank, by_size = _together(table, values, group, seed)
        found = rankings(np.stack([*own, by_rank]), values, group, seed=seed)
        found[-1] = found[-1]._replace(found=top_found(by_size, values))
        for name, ranking in zip([*by_name, "all features"], found, strict=True):
            yield Score(
                **named(moved),
                level=level,
                score=name,
                target=target,
                rho=ranking.rho,
                rho_low=ranking.low,
                rho_high=ranking.high,
                found=ranking.found,
                count=values.size,
            )


def _together(
    table: np.ndarray, target: np.ndarray, group: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions from all scores: of ranks, to rank by, and of sizes, to find by."""
    if np.unique(group).size < 2:
        return np.zeros_like(target), np.zeros_like(target)
    both = np.stack([rankdata(target), target], axis=1)
    by_rank, by_size = held_out_predictions(table.T, both, group, seed=seed).T
    return by_rank, by_size


_TRIED, _TARGETS = 5, 2
"""Bootstraps that are timed, and targets that scores are compared with."""


def seconds_of_scores(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], tokens: float
) -> float:
    """Return the seconds of ranking scores, by trying a little on random numbers."""
    rng = np.random.default_rng(0)
    seconds = 0.0
    for update in (u for point in points for u in point.updates):
        K = max(2, round(tokens * update.step.batch.count))
        table, target = rng.normal(size=(len(SCORES) + 1, K)), rng.normal(size=K)
        group = np.arange(K) % 2
        began = time.perf_counter()
        rankings(table, target, group, seed=0, bootstraps=_TRIED)
        between = time.perf_counter()
        held_out_predictions(table.T, target[:, None], group, seed=0)
        seconds += _TARGETS * BOOTSTRAPS / _TRIED * (between - began)
        # Two groups are two folds.
        seconds += _TARGETS * FOLDS / 2 * (time.perf_counter() - between)
    return seconds
