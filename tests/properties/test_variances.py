"""Properties of statistics that are made from products of gradients."""

import numpy as np
import pytest
from hypothesis import strategies as st

from entrometer.estimators import (
    noise_scale,
    noise_scale_moments,
    two_batch_variance,
    u_statistic,
)
from entrometer.estimators.estimate import fieller_magnitude

from .property import Property, catches_broken_copy, each, holds, seeds

square = st.tuples(seeds, st.integers(4, 9))
scaled = st.tuples(seeds, st.integers(2, 8), st.floats(0.01, 100.0))


def products_of(seed, rows, columns=None):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns or rows)) + rng.normal()


def unmoved_by_order(statistic, case):
    seed, B = case
    g = products_of(seed, B)
    order = np.random.default_rng(seed).permutation(B)
    a, b = statistic(g), statistic(g[np.ix_(order, order)])
    assert b == pytest.approx(a, rel=1e-9, abs=1e-11)


def parts_of_u(g):
    got = u_statistic(g)
    return [got.value, got.zeta_1, got.zeta_2, got.jackknife_variance]


def each_pair_once(g):
    # X of the earlier with Y of the later prompt only: half of the products is lost.
    return [g[np.triu_indices(len(g), 1)].mean()]


def leaves_one_out(statistic, case):
    """The mean of the statistics without each prompt is the statistic."""
    value, without = statistic(products_of(*case))
    assert without.mean() == pytest.approx(value, rel=1e-9, abs=1e-11)


def with_leave_one_out(g):
    got = u_statistic(g)
    return got.value, got.leave_one_out


def row_taken_off_once(g):
    got, B = u_statistic(g), len(g)
    return got.value, (B * got.value - got.rows) / (B - 2)


def goes_with_the_square(variance, case):
    seed, B, c = case
    g = products_of(seed, B, B + 1)
    expected = [c**2 * part for part in variance(g)]
    assert variance(c * g) == pytest.approx(expected, rel=1e-9)


def parts_of_two(g):
    V = two_batch_variance(g)
    return [V.given_update, V.evaluation, V.update, V.both, V.total]


def deviations(g):
    return [abs(part) ** 0.5 for part in parts_of_two(g)]


def sees_no_constant(variance, case):
    """The same number added to every product moves the term, not its variance."""
    seed, B, c = case
    g = products_of(seed, B, B + 1)
    assert variance(g + c) == pytest.approx(variance(g), rel=1e-7, abs=1e-9)


def second_moments(g):
    return [*parts_of_two(g), (g**2).mean()]


def no_unit(scale, case):
    """A loss in other units has the same noise scale."""
    seed, steps, c = case
    rng = np.random.default_rng(seed)
    large = 1.0 + rng.random(steps)
    small = large * (1.0 + rng.random(steps))
    a, b = (scale(c**k * small, c**k * large) for k in (0, 2))
    assert b == pytest.approx(a, rel=1e-8)


def scale_of_two(small, large):
    got = noise_scale(small, large, b=2, B=8)
    return [got.value, got.low, got.high]


def over_the_norm(small, large):
    trace, G2 = noise_scale_moments(small, large, b=2, B=8)
    return [trace.mean() / np.sqrt(np.abs(G2.mean()))]


def holds_the_ratio(interval, case):
    seed, _, t = case
    rng = np.random.default_rng(seed)
    a, b = (float(x) for x in rng.normal(size=2))
    half = rng.normal(size=(2, 2))
    V = half @ half.T
    low, high = interval(a, b, var_a=V[0, 0], var_b=V[1, 1], cov=V[0, 1], t=min(t, 5.0))
    assert low <= abs(a / b) * (1 + 1e-9)
    assert high >= abs(a / b) * (1 - 1e-9)


def of_the_inverse(a, b, *, var_a, var_b, cov, t):
    return fieller_magnitude(b, a, var_a=var_b, var_b=var_a, cov=cov, t=t)


PROPERTIES = [
    Property(
        "a U-statistic does not depend on the order of prompts",
        unmoved_by_order,
        parts_of_u,
        each_pair_once,
        square,
    ),
    Property(
        "statistics without one prompt have the statistic as their mean",
        leaves_one_out,
        with_leave_one_out,
        row_taken_off_once,
        square,
    ),
    Property(
        "a variance of two batches goes with the square of the products",
        goes_with_the_square,
        parts_of_two,
        deviations,
        scaled,
    ),
    Property(
        "a variance of two batches does not see a constant",
        sees_no_constant,
        parts_of_two,
        second_moments,
        scaled,
    ),
    Property("a noise scale has no unit", no_unit, scale_of_two, over_the_norm, scaled),
    Property(
        "an interval of a ratio holds the ratio",
        holds_the_ratio,
        fieller_magnitude,
        of_the_inverse,
        scaled,
    ),
]


@each(PROPERTIES)
def test_holds(it):
    holds(it)


@each(PROPERTIES)
def test_catches_broken_copy(it):
    catches_broken_copy(it)
