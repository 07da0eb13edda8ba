"""How well cheap scores of tokens and responses rank the measured influence."""

# Axes: K tokens, N responses, M scores.

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from entrometer.estimators.scores import (
    BOOTSTRAPS,
    FOLDS,
    SCORES,
    Ranking,
    Sees,
    TokenColumns,
    held_out_predictions,
    rankings,
    top_found,
)
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.influence.tables import Updated
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.influence import Diagonal, Score


def scores(update: Updated, seed: int, store: Path) -> Iterator[Score]:
    """Yield how well scores rank tokens, and responses, by influence on entropy."""
    r, alpha = update.responses, update.batch.alpha
    columns = _columns(update, store)
    by_token = {name: f(columns) for name, (f, _) in SCORES.items()}
    # What each score sees of a token decides how tokens add up to a response.
    to_response: dict[Sees, Callable[[np.ndarray], np.ndarray]] = {
        Sees.ADVANTAGE: r.total,
        Sees.POLICY: lambda column: r.total(alpha * column),
        Sees.RESPONSE: lambda column: column[r.start[:-1]],
    }
    by_response = {
        name: to_response[sees](by_token[name])
        for name, (_, sees) in SCORES.items()
        if sees in to_response
    }
    blocks = read_columns(update.plan.blocks.path(store))
    by_response["diagonal kernel"] = blocks["self"]
    I_h, I_J = (update.parts[x].sum(axis=1) for x in ("entropy", "reward"))
    group = r.spread(update.group)
    in_loss = r.total(np.abs(alpha)) != 0
    levels = {
        "token": (by_token, I_h, I_J, group, alpha != 0),
        "response": (by_response, r.total(I_h), r.total(I_J), update.group, in_loss),
    }
    for level, (by_name, *values, kept) in levels.items():
        # A token of weight 0 has no influence, so there is nothing to rank.
        table = np.stack(list(by_name.values()))[:, kept]
        I_h, I_J, group = (column[kept] for column in values)
        for target, rows in _rankings(table, I_h, I_J, group, seed):
            for name, ranking in zip([*by_name, "all features"], rows, strict=True):
                yield Score(
                    **update.names,
                    level=level,
                    score=name,
                    target=target,
                    rho=ranking.rho,
                    rho_low=ranking.low,
                    rho_high=ranking.high,
                    found=ranking.found,
                    count=I_h.size,
                )


def _columns(update: Updated, store: Path) -> TokenColumns:
    r, reward = update.responses, update.batch.rollouts.reward
    # Mean reward of the prompt group, as a trainer logs it.
    rate = np.bincount(update.group, reward) / np.bincount(update.group)
    return TokenColumns(
        A=update.batch.advantage,
        S=update.here.S,
        H=update.here.H,
        position=(r.position - 1).astype(np.float64),
        length=r.spread(r.length.astype(np.float64)),
        pass_rate=r.spread(rate[update.group]),
        surplus=read_columns(update.plan.concentration.path(store))["surplus"],
    )


def _rankings(
    table: np.ndarray, I_h: np.ndarray, I_J: np.ndarray, group: np.ndarray, seed: int
) -> Iterator[tuple[str, list[Ranking]]]:
    """Yield, per target, the ranking by each score and by all of them together."""
    if not I_h.size:
        return
    # Tokens below the median influence on reward count as leaving reward alone.
    small = np.abs(I_J) < np.median(np.abs(I_J))
    targets = {
        "entropy": (table, I_h),
        # Sizes, because a token can move entropy alone in either direction.
        "entropy alone": (np.abs(table), np.abs(I_h) * small),
    }
    for name, (by_score, target) in targets.items():
        by_rank = by_size = np.zeros_like(target)
        if np.unique(group).size > 1:
            # Ranks are predicted to rank by, and sizes to find the largest: a fit to
            # sizes would rank the many small ones by what suits the few large ones.
            both = np.stack([rankdata(target), target], axis=1)
            by_rank, by_size = held_out_predictions(table.T, both, group, seed=seed).T
        rows = rankings(np.stack([*by_score, by_rank]), target, group, seed=seed)
        rows[-1] = rows[-1]._replace(found=top_found(by_size, target))
        yield name, rows


def diagonals(update: Updated, store: Path) -> Iterator[Diagonal]:
    """Yield the slope of the batch's own entropy, summed by kind of response pair."""
    size = np.bincount(update.group)
    same, count = int((size**2).sum()), int(size.sum())
    pairs = {"self": count, "prompt": same - count, "other": count**2 - same}
    for block, column in read_columns(update.plan.blocks.path(store)).items():
        value = float(column.sum())
        yield Diagonal(**update.names, block=block, value=value, pairs=pairs[block])


_TIMED, _TARGETS = 5, 2
"""Bootstraps that are timed, and targets that scores are compared with."""


def seconds_of_scores(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], tokens: float
) -> float:
    """Return estimated seconds to compare scores with influence, by a short timing."""
    rng = np.random.default_rng(0)
    seconds = 0.0
    for update in (u for point in points for u in point.updates):
        K = max(2, round(tokens * update.step.batch.count))
        table, target = rng.normal(size=(len(SCORES) + 1, K)), rng.normal(size=K)
        # Two groups are the fewest that can be held out.
        group = np.arange(K) % 2
        start = time.perf_counter()
        rankings(table, target, group, seed=0, bootstraps=_TIMED)
        ranked = time.perf_counter()
        held_out_predictions(table.T, target[:, None], group, seed=0)
        seconds += _TARGETS * BOOTSTRAPS / _TIMED * (ranked - start)
        # Two groups make two folds, of the FOLDS that a real batch has.
        seconds += _TARGETS * FOLDS / 2 * (time.perf_counter() - ranked)
    return seconds
