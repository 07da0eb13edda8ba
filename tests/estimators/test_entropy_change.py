import math

import numpy as np
import pytest

from entrometer import oracles
from entrometer.estimators import (
    Baseline,
    Responses,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
)

ETA = 0.3


def test_expectation_is_the_exact_change(world, weighting, baseline, per, truth):
    sums = change_statistics(
        world.responses,
        world.here,
        world.tables(ETA),
        weighting=weighting,
        baseline=baseline,
    )
    exact = float(truth(oracles.moved(world.theta, world.v, ETA)) - truth(world.theta))
    got = entropy_change(world.expectation(sums), per=per).value
    assert got == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_expectation_does_not_depend_on_a_baseline_of_the_prefix(world, scale):
    there = world.tables(ETA)
    plain = change_statistics(
        world.responses, world.here, there, weighting=Weighting.PER_DECISION
    )
    b, c = world.random_baseline(7)
    robust = change_statistics(
        world.responses,
        world.here,
        there,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=Baseline(scale * b, scale * c),
    )
    expected = entropy_change(world.expectation(plain)).value
    got = entropy_change(world.expectation(robust)).value
    assert got == pytest.approx(expected, rel=1e-10)


def test_a_baseline_that_peeks_at_its_own_token_biases_the_expectation(world):
    S = world.here.S
    sums = change_statistics(
        world.responses,
        world.here,
        world.tables(ETA),
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=Baseline(b=S, c=np.zeros_like(S)),
    )
    f = oracles.entropy_per_token(world.policy)
    exact = float(f(oracles.moved(world.theta, world.v, ETA)) - f(world.theta))
    got = entropy_change(world.expectation(sums)).value
    assert abs(got - exact) > 0.5 * abs(exact)


def test_value_on_a_batch_is_the_definition_token_by_token(
    world, batch, weighting, baseline, per
):
    here, there = batch.of(world.here), batch.of(world.tables(ETA))
    sums = change_statistics(
        batch.responses,
        here,
        there,
        weighting=weighting,
        baseline=(prediction := batch.of(baseline)),
    )
    N = D = N0 = D0 = 0.0
    for i in range(batch.responses.count):
        tokens = range(batch.responses.start[i], batch.responses.start[i + 1])
        w_all = math.exp(sum(there.S[k] - here.S[k] for k in tokens))
        w = 1.0
        for k in tokens:
            w_here = w_all if weighting is Weighting.SEQUENCE else w
            w_next = w * math.exp(there.S[k] - here.S[k])
            N, D = N + w_here * there.H[k], D + w_here
            if prediction is not None:
                N -= (w_next - w) * prediction.b[k]
                D -= (w_next - w) * prediction.c[k]
            N0, D0, w = N0 + here.H[k], D0 + 1, w_next
    expected = (N - N0) / batch.responses.count
    if per == "token":
        expected = N / D - N0 / D0
    assert entropy_change(sums, per=per).value == pytest.approx(expected, rel=1e-11)


def test_no_step_is_no_change_exactly(world, batch, weighting, baseline, per):
    here = batch.of(world.here)
    sums = change_statistics(
        batch.responses, here, here, weighting=weighting, baseline=batch.of(baseline)
    )
    change = entropy_change(sums, per=per)
    assert change.value == 0.0
    assert change.standard_error == 0.0


def test_a_change_far_below_the_rounding_of_the_entropy_is_not_lost():
    """exp(x) - 1 by hand would leave 3 digits of a log-ratio of 1e-13."""
    responses = Responses.from_lengths(np.arange(2), np.array([2, 1]))
    S, H = np.zeros(3), np.array([0.7, 0.4, 0.9])
    there = Tables(S=np.array([1e-13, 0.0, 3e-13]), H=H)
    sums = change_statistics(
        responses, Tables(S, H), there, weighting=Weighting.SEQUENCE
    )
    R, dN, dD = 2.0 / 3.0, 1e-13 * 1.1 + 3e-13 * 0.9, 1e-13 * 2 + 3e-13
    expected = (dN - R * dD) / 3
    assert entropy_change(sums).value == pytest.approx(expected, rel=1e-12)


def test_a_step_after_which_every_weight_underflows_has_no_change():
    responses = Responses.from_lengths(np.arange(2), np.array([2, 1]))
    here, far = (Tables(S=np.full(3, S), H=np.ones(3)) for S in (-1.0, -1e4))
    sums = change_statistics(responses, here, far, weighting=Weighting.SEQUENCE)
    assert math.isnan(entropy_change(sums).value)


def test_weights_are_reported(world, batch, weighting, baseline):
    here, there = batch.of(world.here), batch.of(world.tables(ETA))
    sums = change_statistics(
        batch.responses, here, there, weighting=weighting, baseline=batch.of(baseline)
    )
    w = np.exp(batch.responses.total(there.S - here.S))
    estimate = entropy_change(sums).estimate()
    assert estimate.largest_weight == pytest.approx(w.max(), rel=1e-13)
    expected = w.sum() ** 2 / (w**2).sum()
    assert estimate.effective_samples == pytest.approx(expected, rel=1e-13)
    assert estimate.prompts == 24


def test_prompt_influences_are_the_derivative_under_reweighting_of_a_prompt(
    world, batch, weighting, baseline, per, pulls_by_reweighting
):
    sums = change_statistics(
        batch.responses,
        batch.of(world.here),
        batch.of(world.tables(ETA)),
        weighting=weighting,
        baseline=batch.of(baseline),
    )
    pull = entropy_change(sums, per=per).prompt_influence
    expected = pulls_by_reweighting(lambda s: entropy_change(s, per=per), sums)
    assert np.abs(pull - expected).max() < 1e-8 * np.abs(pull).max()
    assert abs(pull.sum()) < 1e-13


def test_standard_error_is_the_exact_deviation(
    world, weighting, baseline, assert_standard_error
):
    sums = change_statistics(
        world.responses,
        world.here,
        world.tables(ETA),
        weighting=weighting,
        baseline=baseline,
    )
    assert_standard_error(entropy_change, sums)
