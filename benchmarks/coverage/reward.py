"""Intervals of the change of expected reward and of its slope."""

from collections.abc import Iterator

import numpy as np

from benchmarks.coverage.world import Case, World
from benchmarks.enumerated import sampled
from entrometer import oracles
from entrometer.estimators import (
    Estimate,
    PromptSums,
    reward_change,
    reward_change_statistics,
    reward_slope_statistics,
)
from entrometer.estimators.reward_change import RewardBaseline


def reward_cases(world: World) -> Iterator[Case]:
    e = world.enumerated
    J = oracles.expected_reward(e.policy, world.rewards)
    r = world.rewards.flatten().numpy()
    change = reward_change_statistics(e.responses, r, e.here, e.tables(world.eta))
    slope = reward_slope_statistics(e.responses, r, e.tangents)
    true_change = float(J(world.moved) - J(e.theta))
    true_slope = oracles.first_derivative(J, e.theta, dict(e.v))
    baselines: tuple[RewardBaseline, ...] = ("group", "batch")
    for baseline in baselines:
        yield _case(world, "reward_change", change, baseline, true_change)
        yield _case(world, "reward_slope", slope, baseline, true_slope)


def _case(
    world: World, name: str, sums: PromptSums, baseline: RewardBaseline, truth: float
) -> Case:
    def simulate(rng: np.random.Generator) -> tuple[Estimate, float]:
        drawn = sampled(sums, world.draw(rng))
        return reward_change(drawn, baseline=baseline).estimate(), truth

    return Case(f"{name}.{baseline}", simulate)
