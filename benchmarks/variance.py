"""Variance of each weighting and baseline on a policy with heavy-tailed lengths."""

# Axes: N all responses to all prompts, K tokens of all responses.

from collections.abc import Iterator

import numpy as np

from benchmarks.enumerated import Enumerated, taken
from benchmarks.harness import Check, Report
from entrometer.calculus import scale
from entrometer.estimators import (
    Baseline,
    Linearised,
    PositionFit,
    RidgeFit,
    Tables,
    Weighting,
    change_statistics,
    constant_features,
    entropy_change,
    linear_statistics,
    linear_term,
    prefix_features,
)
from entrometer.oracles import EnumerablePolicy

STEPS = {"small step": 0.001, "large step": 0.5}
FIT_RESPONSES = 4096
ORIGINAL = "original: sequence change, moving-average slope"


def run() -> Report:
    world = heavy_tailed()
    tables = {name: relative_variances(world, eta) for name, eta in STEPS.items()}
    for name, table in tables.items():
        title = f"variance at a {name}, original = 1"
        print(f"{title:<50}{'Δh':>9}{'δh₁':>9}{'Δh−δh₁':>11}")
        for method, row in table.items():
            print(f"{method:<50}{row[0]:>9.4f}{row[1]:>9.4f}{row[2]:>11.2e}")
    small, large = tables["small step"], tables["large step"]
    matched = [row[2] for method, row in small.items() if method != ORIGINAL]
    mean = float(world.probability @ world.responses.length)
    return Report(
        [
            Check("variance.small.per_decision", small["per decision"][0], at_most=1),
            Check("variance.small.ridge", small["ridge"][0], at_most=1),
            Check("variance.small.largest_matched_pair", max(matched), at_most=0.01),
            Check("variance.large.per_decision", large["per decision"][0], at_most=1),
        ],
        {
            "relative_variance": tables,
            "columns": ["change", "linear", "change_less_linear"],
            "steps": STEPS,
            "mean_length": mean,
            "length_limit": world.policy.length,
        },
    )


def relative_variances(world: Enumerated, eta: float) -> dict[str, list[float]]:
    """Variances of change, slope and their difference over the original pairing's."""
    changes: dict[str, Linearised] = {}
    slopes: dict[str, Linearised] = {}
    there = world.tables(eta)
    for name, weighting, baseline in methods(world):
        change = change_statistics(
            world.responses, world.here, there, weighting=weighting, baseline=baseline
        )
        slope = linear_statistics(
            world.responses,
            world.here,
            world.tangents,
            weighting=weighting,
            baseline=baseline,
        )
        changes[name] = entropy_change(world.expectation(change))
        slopes[name] = eta * linear_term(world.expectation(slope))
    pairs = {ORIGINAL: (changes["sequence"], slopes["moving average"])}
    pairs |= {name: (changes[name], slopes[name]) for name in changes}
    unit = [variance(world, x) for x in _three(*pairs[ORIGINAL])]
    return {
        name: [variance(world, x) / u for x, u in zip(_three(*p), unit, strict=True)]
        for name, p in pairs.items()
    }


def heavy_tailed() -> Enumerated:
    """Responses of up to 12 tokens; how likely EOS is differs widely by prompt."""
    policy = EnumerablePolicy(length=12, prompts=6)
    world = Enumerated.random(4, policy, scale=0.9, eos_logit=-1.5)
    return Enumerated(policy, world.theta, scale(world.v, 2.0))


def methods(world: Enumerated) -> Iterator[tuple[str, Weighting, Baseline | None]]:
    """Weightings, with baselines fitted on an independent sample."""
    yield "sequence", Weighting.SEQUENCE, None
    yield "per decision", Weighting.PER_DECISION, None
    rows = world.draw(np.random.default_rng(0), FIT_RESPONSES)
    responses, index = world.layout(rows)
    here = Tables(*taken(world.here, index))
    robust = Weighting.DOUBLY_ROBUST
    x = constant_features(responses)
    constant = RidgeFit.of(responses, here, x).solve()
    whole = constant_features(world.responses)
    yield "constant", robust, constant.predict(world.responses, whole)
    position = PositionFit.of(responses, here, batch=0, positions=12).solve()
    yield "moving average", robust, position.predict(world.responses)
    x = prefix_features(responses, here)
    ridge = RidgeFit.of(responses, here, x).solve()
    whole = prefix_features(world.responses, world.here)
    yield "ridge", robust, ridge.predict(world.responses, whole)
    yield "exact conditional mean", robust, conditional_mean(world)


def conditional_mean(world: Enumerated) -> Baseline:
    r"""$\mathrm E[G_k\,|\,t_{<k}]$ and $\mathrm E[M_k\,|\,t_{<k}]$ by enumeration."""
    p = world.responses.spread(world.probability)
    targets = (world.responses.after(world.here.H), world.responses.remaining)
    keys = [
        (prompt, *tokens[:k])
        for prompt, tokens, T in zip(
            world.prompt.tolist(),
            world.tokens.tolist(),
            world.responses.length,
            strict=True,
        )
        for k in range(T)
    ]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    prefix = np.array([number[key] for key in keys])
    mass = np.bincount(prefix, p)
    b, c = (np.bincount(prefix, p * y)[prefix] / mass[prefix] for y in targets)
    return Baseline(b=b, c=c)


def variance(world: Enumerated, x: Linearised) -> float:
    """Exact variance of one prompt's pull, with one response a prompt."""
    return float((x.prompt_influence**2 / world.probability).sum())


def _three(change: Linearised, linear: Linearised) -> tuple[Linearised, ...]:
    return change, linear, change - linear
