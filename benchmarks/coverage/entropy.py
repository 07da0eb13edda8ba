"""Intervals of the entropy, its change, slope, curvature and linear regime."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.coverage.world import Case, World
from benchmarks.enumerated import sampled, taken
from entrometer import oracles
from entrometer.estimators import (
    Baseline,
    Estimate,
    Linearised,
    Per,
    PositionFit,
    PromptSums,
    Responses,
    RidgeFit,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    constant_features,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_regime,
    linear_statistics,
    linear_term,
    prefix_features,
    quadratic_statistics,
    quadratic_term,
)

PERS: tuple[Per, ...] = ("token", "sequence")


def entropy_cases(world: World) -> Iterator[Case]:
    e = world.enumerated
    for name, column in (("whole_vocabulary", e.here.H), ("surprisal", -e.here.S)):
        sums = entropy_statistics(e.responses, column)
        for per in PERS:
            truth = float(_objective(world, per)(e.theta))
            yield _of_sums(world, f"entropy.{name}.{per}", sums, entropy, per, truth)
    yield from change_cases(world)
    for name, fit in FITS.items():
        for per in PERS:
            yield from _doubly_robust(world, name, fit, per)


def change_cases(world: World) -> Iterator[Case]:
    """Change, slope, curvature and regime without a baseline."""
    e = world.enumerated
    for weighting in (Weighting.SEQUENCE, Weighting.PER_DECISION):
        change = change_statistics(
            e.responses, e.here, e.tables(world.eta), weighting=weighting
        )
        second = quadratic_statistics(
            e.responses, e.here, e.tangents, e.curvatures, weighting=weighting
        )
        for per in PERS:
            t = truths(world, per)
            end = f"{weighting}.{per}"
            yield _of_sums(world, f"change.{end}", change, entropy_change, per, t[0])
            yield _of_sums(world, f"linear.{end}", second, linear_term, per, t[1])
            yield _of_sums(world, f"quadratic.{end}", second, quadratic_term, per, t[2])
            yield _regime(world, f"linear_regime.{end}", second, per, t)
            yield _paired(world, f"linear_less_change.{end}", second, change, per, t)


def truths(world: World, per: Per) -> tuple[float, float, float]:
    """Exact change, slope and curvature."""
    e, f = world.enumerated, _objective(world, per)
    v = dict(e.v)
    return (
        float(f(world.moved) - f(e.theta)),
        oracles.first_derivative(f, e.theta, v),
        oracles.second_derivative(f, e.theta, v),
    )


def _objective(world: World, per: Per) -> oracles.Objective:
    policy = world.enumerated.policy
    if per == "token":
        return oracles.entropy_per_token(policy)
    return oracles.entropy_per_sequence(policy)


def _of_sums(
    world: World,
    name: str,
    sums: PromptSums,
    estimator: Callable[..., Linearised],
    per: Per,
    truth: float,
) -> Case:
    def simulate(rng: np.random.Generator) -> tuple[Estimate, float]:
        return estimator(sampled(sums, world.draw(rng)), per=per).estimate(), truth

    return Case(name, simulate)


def _regime(
    world: World, name: str, sums: PromptSums, per: Per, t: tuple[float, float, float]
) -> Case:
    def simulate(rng: np.random.Generator) -> tuple[Estimate, float]:
        # Enough prompts to tell the sign of the curvature; with fewer it covers more.
        rows = world.enumerated.draw_groups(rng, 4 * world.prompts, world.group)
        drawn = sampled(sums, rows)
        regime = linear_regime(
            linear_term(drawn, per=per), quadratic_term(drawn, per=per)
        )
        return regime, 2 * abs(t[1] / t[2])

    return Case(name, simulate)


def _paired(
    world: World,
    name: str,
    second: PromptSums,
    change: PromptSums,
    per: Per,
    t: tuple[float, float, float],
) -> Case:
    def simulate(rng: np.random.Generator) -> tuple[Estimate, float]:
        rows = world.draw(rng)
        predicted = world.eta * linear_term(sampled(second, rows), per=per)
        true = entropy_change(sampled(change, rows), per=per)
        return (predicted - true).estimate(), world.eta * t[1] - t[0]

    return Case(name, simulate)


def _constant(responses: Responses, here: Tables) -> Baseline:
    x = constant_features(responses)
    return RidgeFit.of(responses, here, x).solve().predict(responses, x)


def _ridge(responses: Responses, here: Tables) -> Baseline:
    x = prefix_features(responses, here)
    return RidgeFit.of(responses, here, x).solve().predict(responses, x)


def _moving_average(responses: Responses, here: Tables) -> Baseline:
    fit = PositionFit.of(responses, here, batch=0, positions=4)
    return fit.solve().predict(responses)


FITS: dict[str, Callable[[Responses, Tables], Baseline]] = {
    "constant": _constant,
    "moving_average": _moving_average,
    "ridge": _ridge,
}
"""Baselines fitted anew on every simulated batch, crosswise over folds of prompts."""


def _doubly_robust(
    world: World, name: str, fit: Callable[[Responses, Tables], Baseline], per: Per
) -> Iterator[Case]:
    e = world.enumerated
    there = e.tables(world.eta)
    t = truths(world, per)

    def change(rng: np.random.Generator) -> tuple[Estimate, float]:
        responses, index = e.layout(world.draw(rng))
        here = Tables(*taken(e.here, index))
        sums = change_statistics(
            responses,
            here,
            Tables(*taken(there, index)),
            weighting=Weighting.DOUBLY_ROBUST,
            baseline=fit(responses, here),
        )
        return entropy_change(sums, per=per).estimate(), t[0]

    def linear(rng: np.random.Generator) -> tuple[Estimate, float]:
        responses, index = e.layout(world.draw(rng))
        here = Tables(*taken(e.here, index))
        sums = linear_statistics(
            responses,
            here,
            Tangents(*taken(e.tangents, index)),
            weighting=Weighting.DOUBLY_ROBUST,
            baseline=fit(responses, here),
        )
        return linear_term(sums, per=per).estimate(), t[1]

    yield Case(f"change.doubly_robust.{name}.{per}", change)
    yield Case(f"linear.doubly_robust.{name}.{per}", linear)
