"""Intervals of the influence of a token and of a group of tokens."""

# Axes: N all responses to all prompts, K tokens of the update, Q folds.

from collections.abc import Callable, Iterator

import numpy as np
import torch

from benchmarks.coverage.world import Case, World
from benchmarks.enumerated import Enumerated
from entrometer import calculus, oracles
from entrometer.estimators import (
    Estimate,
    FoldContributions,
    Weighting,
    linear_statistics,
    summed,
    token_influence,
)

FOLDS = 8


def influence_cases(world: World) -> Iterator[Case]:
    e = world.enumerated
    parts = _token_parts(world)
    entropy = oracles.entropy_per_token(e.policy)
    reward = oracles.expected_reward(e.policy, world.rewards)
    slopes = _slopes(e, parts)
    for name, f, fold in (
        ("entropy", entropy, _entropy_folds),
        ("reward", reward, _reward_folds),
    ):
        exact = [oracles.first_derivative(f, e.theta, part) for part in parts]
        truth = np.array(exact)
        yield _case(
            world, f"influence.{name}.token", slopes, fold, truth, grouped=False
        )
        yield _case(world, f"influence.{name}.group", slopes, fold, truth, grouped=True)


def _token_parts(world: World, responses: int = 3) -> list[dict[str, torch.Tensor]]:
    """The part of an update that each token of a few responses makes."""
    e = world.enumerated
    rows = e.draw(np.random.default_rng(11), responses)
    P = {n: x.abs() + 0.1 for n, x in e.v.items()}
    parts = []
    for row in rows.tolist():
        for k in range(int(e.responses.length[row])):
            one = torch.zeros(e.mask.shape, dtype=torch.float64)
            one[row, k] = 1.0
            g = calculus.vjp(e.padded, e.theta, (one, torch.zeros_like(one))).gradient
            parts.append(calculus.multiply(P, g))
    return parts


class _Slopes:
    """For every response and every token part: what the folds are summed from."""

    def __init__(self, H: np.ndarray, T: np.ndarray) -> None:
        self.H, self.T = H, T
        self.N1: list[np.ndarray] = []
        self.D1: list[np.ndarray] = []
        self.score: list[np.ndarray] = []


def _slopes(e: Enumerated, parts: list[dict[str, torch.Tensor]]) -> _Slopes:
    slopes = _Slopes(e.responses.total(e.here.H), e.responses.length.astype(float))
    for part in parts:
        along = Enumerated(e.policy, e.theta, part)
        sums = linear_statistics(
            e.responses, e.here, along.tangents, weighting=Weighting.PER_DECISION
        )
        slopes.N1.append(sums.of_prompts("N1"))
        slopes.D1.append(sums.of_prompts("D1"))
        slopes.score.append(e.responses.total(along.tangents.dS))
    return slopes


def _entropy_folds(slopes: _Slopes, rows_QB: np.ndarray, _: World) -> FoldContributions:
    H, T = slopes.H[rows_QB].sum(axis=1), slopes.T[rows_QB].sum(axis=1)
    R, total = H.sum() / T.sum(), T.sum()
    N1_KQ = np.stack(slopes.N1)[:, rows_QB].sum(axis=2)
    D1_KQ = np.stack(slopes.D1)[:, rows_QB].sum(axis=2)
    return FoldContributions(
        parts=(N1_KQ - R * D1_KQ) / total,
        size=T / total,
        residual=(H - R * T) / total,
        length=D1_KQ.sum(axis=1) / total,
    )


def _reward_folds(
    slopes: _Slopes, rows_QB: np.ndarray, world: World
) -> FoldContributions:
    r = world.rewards.flatten().numpy()[rows_QB]
    n = r.size
    centred = (r - r.mean()) * n / (n - 1)
    x = np.stack(slopes.score)[:, rows_QB]
    size = np.full(len(rows_QB), 1 / len(rows_QB))
    return FoldContributions(parts=(centred * x).sum(axis=2) / n, size=size)


def _case(
    world: World,
    name: str,
    slopes: _Slopes,
    fold: Callable[[_Slopes, np.ndarray, World], FoldContributions],
    truth: np.ndarray,
    *,
    grouped: bool,
) -> Case:
    K = truth.size

    def simulate(rng: np.random.Generator) -> tuple[Estimate, float]:
        rows = world.enumerated.draw(rng, world.prompts).reshape(FOLDS, -1)
        contributions = fold(slopes, rows, world)
        group = np.zeros(K, np.int64) if grouped else np.arange(K)
        if grouped:
            contributions = summed(contributions, group, 1)
        influence = token_influence(
            contributions, prompts=world.prompts, responses=world.prompts
        )
        # Every token in turn, one a simulation.
        token = int(rng.integers(influence.value.size))
        expected = truth.sum() if grouped else truth[token]
        return influence[token], float(expected)

    return Case(name, simulate)
