"""(a) Estimators on the whole distribution against exact derivatives."""

from collections.abc import Iterator

from benchmarks.enumerated import Enumerated
from benchmarks.harness import Check, worst
from entrometer import oracles
from entrometer.estimators import (
    Baseline,
    Per,
    Weighting,
    change_statistics,
    entropy_change,
    linear_term,
    quadratic_statistics,
    quadratic_term,
    reward_slope_statistics,
)

PERS: tuple[Per, ...] = ("token", "sequence")


def expectations(worlds: int = 10, eta: float = 0.3) -> list[Check]:
    """(a) Estimators on the whole distribution against exact derivatives."""
    errors: dict[str, list[float]] = {}

    def compare(name: str, got: float, exact: float) -> None:
        errors.setdefault(name, []).append(abs(got - exact) / abs(exact))

    for seed in range(worlds):
        world = Enumerated.random(seed)
        here, there = world.here, world.tables(eta)
        moved = oracles.moved(world.theta, dict(world.v), eta)
        for weighting, b in weightings(world, seed):
            second = world.expectation(
                quadratic_statistics(
                    world.responses,
                    here,
                    world.tangents,
                    world.curvatures,
                    weighting=weighting,
                    baseline=b,
                )
            )
            change = world.expectation(
                change_statistics(
                    world.responses, here, there, weighting=weighting, baseline=b
                )
            )
            for per in PERS:
                f = objective(world, per)
                exact = [
                    float(f(moved) - f(world.theta)),
                    oracles.first_derivative(f, world.theta, dict(world.v)),
                    oracles.second_derivative(f, world.theta, dict(world.v)),
                ]
                compare("change", entropy_change(change, per=per).value, exact[0])
                compare("linear", linear_term(second, per=per).value, exact[1])
                compare("quadratic", quadratic_term(second, per=per).value, exact[2])
        compare("reward_slope", *reward_slopes(world, seed))
    return [
        Check(f"a.expectation.{name}.relative_error", worst(values), at_most=1e-10)
        for name, values in errors.items()
    ]


def reward_slopes(world: Enumerated, seed: int) -> tuple[float, float]:
    """Slope of J over the whole distribution by our weights, and exactly."""
    rewards = oracles.random_rewards(world.policy, seed)
    f = oracles.expected_reward(world.policy, rewards)
    exact = oracles.first_derivative(f, world.theta, dict(world.v))
    sums = world.expectation(
        reward_slope_statistics(
            world.responses, rewards.flatten().numpy(), world.tangents
        )
    )
    # The exact score has mean zero, so that no baseline is needed.
    return sums.total("rx") / sums.total("responses"), exact


def weightings(
    world: Enumerated, seed: int
) -> Iterator[tuple[Weighting, Baseline | None]]:
    """Sequence, per decision, and doubly robust with two arbitrary baselines."""
    yield Weighting.SEQUENCE, None
    yield Weighting.PER_DECISION, None
    for k in range(2):
        yield Weighting.DOUBLY_ROBUST, world.random_baseline(10 * seed + k)


def objective(world: Enumerated, per: Per) -> oracles.Objective:
    if per == "token":
        return oracles.entropy_per_token(world.policy)
    return oracles.entropy_per_sequence(world.policy)
