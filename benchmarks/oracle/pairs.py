"""(b) What the linear term, and both terms, leave of the true change."""

from collections.abc import Callable

import numpy as np

from benchmarks.enumerated import Enumerated, sampled
from benchmarks.harness import Check
from benchmarks.oracle.expectations import weightings
from entrometer.estimators import (
    Baseline,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    linear_term,
    quadratic_statistics,
    quadratic_term,
)


def matched_pairs(batches: int = 100, size: int = 64) -> list[Check]:
    """(b) Order of what is left after the linear, and after both terms.

    A batch whose own second (third) derivative happens to be near zero leaves a
    remainder of the next order, or of round-off, and no slope at all. So the limits are
    put on the root mean square over the batches, and on the 5% and 95% quantiles of the
    batches' own slopes; the share of batches inside the limits is printed.
    """
    etas = {1: np.logspace(-6, -3, 10), 2: np.logspace(-4, -1, 10)}
    left: dict[int, list[list[float]]] = {1: [], 2: []}
    for seed in range(batches):
        world = Enumerated.random(seed)
        rows = world.draw(np.random.default_rng(seed), size)
        there = {eta: world.tables(eta) for eta in np.concatenate([*etas.values()])}
        for weighting, b in weightings(world, seed):
            for order in (1, 2):
                remainder = _remainder(world, rows, weighting, b, order)
                left[order].append([remainder(e, there[e]) for e in etas[order]])
    checks = []
    for order, width in ((1, 0.05), (2, 0.1)):
        eta, r = np.log(etas[order]), np.array(left[order])
        slopes = np.array([np.polyfit(eta, np.log(row), 1)[0] for row in r])
        rms = np.polyfit(eta, np.log(np.sqrt((r**2).mean(axis=0))), 1)[0]
        low, high = np.quantile(slopes, [0.05, 0.95])
        inside = np.abs(slopes - order - 1) <= width
        name, limits = f"b.order_{order}", (order + 1 - width, order + 1 + width)
        checks += [
            _between(f"{name}.slope_of_rms", rms, *limits),
            _between(f"{name}.slope_of_batches.median", np.median(slopes), *limits),
            _between(f"{name}.slope_of_batches.q05", low, *limits),
            _between(f"{name}.slope_of_batches.q95", high, *limits),
            Check(f"{name}.share_of_batches_inside", float(inside.mean())),
        ]
    return checks


def _between(name: str, value: float, low: float, high: float) -> Check:
    return Check(name, float(value), at_least=low, at_most=high)


def _remainder(
    world: Enumerated,
    rows: np.ndarray,
    weighting: Weighting,
    baseline: Baseline | None,
    order: int,
) -> Callable[[float, Tables], float]:
    """What the prediction of an order leaves of the true change on a drawn batch."""
    second = sampled(
        quadratic_statistics(
            world.responses,
            world.here,
            world.tangents,
            world.curvatures,
            weighting=weighting,
            baseline=baseline,
        ),
        rows,
    )
    h1 = linear_term(second).value
    h2 = quadratic_term(second).value if order == 2 else 0.0

    def remainder(eta: float, there: Tables) -> float:
        change = change_statistics(
            world.responses, world.here, there, weighting=weighting, baseline=baseline
        )
        true = entropy_change(sampled(change, rows)).value
        return abs(true - eta * h1 - eta**2 * h2 / 2)

    return remainder
