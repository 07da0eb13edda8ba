import numpy as np
import pytest

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.estimators import (
    Baseline,
    Responses,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    entropy_change,
    entropy_gradient_weights,
    entropy_statistics,
    length_gradient_weights,
    linear_statistics,
    linear_term,
)
from entrometer.estimators.linear_term import score_coefficients


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expectation_is_the_exact_derivative(seed, weighting, per):
    world = Enumerated.random(seed)
    robust = weighting is Weighting.DOUBLY_ROBUST
    f = {
        "token": oracles.entropy_per_token(world.policy),
        "sequence": oracles.entropy_per_sequence(world.policy),
    }[per]
    exact = oracles.first_derivative(f, world.theta, world.v)
    for baseline_seed in range(3):
        sums = linear_statistics(
            world.responses,
            world.here,
            world.tangents,
            weighting=weighting,
            baseline=world.random_baseline(baseline_seed) if robust else None,
        )
        got = linear_term(world.expectation(sums), per=per).value
        assert got == pytest.approx(exact, rel=1e-10)


def test_a_baseline_that_peeks_at_its_own_token_biases_the_expectation(world):
    S = world.here.S
    sums = linear_statistics(
        world.responses,
        world.here,
        world.tangents,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=Baseline(b=S, c=np.zeros_like(S)),
    )
    f = oracles.entropy_per_token(world.policy)
    exact = oracles.first_derivative(f, world.theta, world.v)
    assert abs(linear_term(world.expectation(sums)).value - exact) > 0.5 * abs(exact)


def test_length_times_entropy_in_place_of_the_mean_entropy_is_not_the_derivative(world):
    r"""The last term is $R\,T_i\nabla S$ with $R = \sum H/\sum T$.

    With $\sum_k T_iH_k\nabla S$ in its place, as it is easily written, it is several
    times too large here.
    """
    p, responses = world.probability, world.responses
    H, T = responses.total(world.here.H), responses.length
    dS, dH = (responses.total(x) for x in world.tangents)
    R = (p @ H) / (p @ T)
    ours = p @ (dH + H * dS - R * T * dS) / (p @ T)
    theirs = p @ (dH + H * dS - T * H * dS) / (p @ T)
    f = oracles.entropy_per_token(world.policy)
    exact = oracles.first_derivative(f, world.theta, world.v)
    assert ours == pytest.approx(exact, rel=1e-11)
    assert abs(theirs - exact) > abs(exact)
    sums = linear_statistics(
        responses, world.here, world.tangents, weighting=Weighting.SEQUENCE
    )
    assert linear_term(world.expectation(sums)).value == pytest.approx(ours, rel=1e-12)


def test_what_it_leaves_of_the_change_on_the_same_batch_falls_with_the_square(
    world, batch, weighting, baseline, per
):
    here, b = batch.of(world.here), batch.of(baseline)
    slope = linear_term(
        linear_statistics(
            batch.responses,
            here,
            batch.of(world.tangents),
            weighting=weighting,
            baseline=b,
        ),
        per=per,
    ).value
    etas = np.array([1e-2, 1e-3, 1e-4])
    left = []
    for eta in etas:
        change = change_statistics(
            batch.responses,
            here,
            batch.of(world.tables(eta)),
            weighting=weighting,
            baseline=b,
        )
        left.append(abs(entropy_change(change, per=per).value - eta * slope))
    order = np.polyfit(np.log(etas), np.log(left), 1)[0]
    assert order == pytest.approx(2, abs=0.05)


def test_another_weighting_is_no_match(world, batch):
    """Pairing a slope with the change of another estimator leaves a first order."""
    here, tangents = batch.of(world.here), batch.of(world.tangents)
    slope = linear_term(
        linear_statistics(
            batch.responses, here, tangents, weighting=Weighting.PER_DECISION
        )
    ).value
    left = []
    for eta in (1e-3, 1e-4):
        change = change_statistics(
            batch.responses,
            here,
            batch.of(world.tables(eta)),
            weighting=Weighting.SEQUENCE,
        )
        left.append(abs(entropy_change(change).value / eta - slope))
    assert left[1] == pytest.approx(left[0], rel=0.1)
    assert left[1] > 0.01 * abs(slope)


def test_prompt_influences_are_the_derivative_under_reweighting_of_a_prompt(
    world, batch, weighting, baseline, per, pulls_by_reweighting
):
    sums = linear_statistics(
        batch.responses,
        batch.of(world.here),
        batch.of(world.tangents),
        weighting=weighting,
        baseline=batch.of(baseline),
    )
    pull = linear_term(sums, per=per).prompt_influence
    expected = pulls_by_reweighting(lambda s: linear_term(s, per=per), sums)
    assert np.abs(pull - expected).max() < 1e-8 * np.abs(pull).max()
    assert abs(pull.sum()) < 1e-13


def test_standard_error_is_the_exact_deviation(
    world, weighting, baseline, assert_standard_error
):
    sums = linear_statistics(
        world.responses,
        world.here,
        world.tangents,
        weighting=weighting,
        baseline=baseline,
    )
    assert_standard_error(linear_term, sums)


def test_coefficients_of_the_score_on_numbers_worked_by_hand():
    responses = Responses.from_lengths(np.arange(2), np.array([3, 1]))
    here = Tables(S=np.zeros(4), H=np.array([1.0, 2.0, 4.0, 8.0]))
    b = Baseline(b=np.array([0.5, 0.0, 0.0, 1.0]), c=np.array([1.0, 0.0, 0.0, 2.0]))
    expected = {
        Weighting.SEQUENCE: ([7, 7, 7, 8], [3, 3, 3, 1], None),
        Weighting.PER_DECISION: ([6, 4, 0, 0], [2, 1, 0, 0], None),
        Weighting.DOUBLY_ROBUST: ([5.5, 4, 0, -1], [1, 1, 0, -2], b),
    }
    for weighting, (N, D, baseline) in expected.items():
        got = score_coefficients(
            responses, here, weighting=weighting, baseline=baseline
        )
        assert got.N.tolist() == N
        assert got.D.tolist() == D


def test_gradient_weights_give_the_linear_term_in_any_chunks(
    world, batch, weighting, baseline, per
):
    here, tangents, b = (batch.of(x) for x in (world.here, world.tangents, baseline))
    term = linear_term(
        linear_statistics(
            batch.responses, here, tangents, weighting=weighting, baseline=b
        ),
        per=per,
    ).value
    whole = entropy_statistics(batch.responses, here.H)
    cut = 20
    middle = batch.responses.start[cut]
    total = 0.0
    for rows, tokens in (
        (slice(None, cut), slice(None, middle)),
        (slice(cut, None), slice(middle, None)),
    ):
        chunk = Responses.from_lengths(
            batch.responses.prompt[rows], batch.responses.length[rows]
        )
        weights = entropy_gradient_weights(
            chunk,
            Tables(*(x[tokens] for x in here)),
            whole,
            weighting=weighting,
            baseline=None if b is None else Baseline(*(x[tokens] for x in b)),
            per=per,
        )
        part = Tangents(*(x[tokens] for x in tangents))
        total += weights.S @ part.dS + weights.H @ part.dH
    assert total == pytest.approx(term, rel=1e-11)


def test_length_weights_give_the_exact_derivative_of_the_mean_length(
    world, weighting, baseline
):
    whole = world.expectation(entropy_statistics(world.responses, world.here.H))
    weights = length_gradient_weights(
        world.responses, world.here, whole, weighting=weighting, baseline=baseline
    )
    p = world.responses.spread(world.probability)
    exact = oracles.first_derivative(
        oracles.mean_length(world.policy), world.theta, world.v
    )
    assert (p * weights.S) @ world.tangents.dS == pytest.approx(exact, rel=1e-10)
    assert not weights.H.any()


@pytest.mark.parametrize(("bins", "biased"), [(2, 0.0066), (10, -0.0289)])
def test_a_baseline_binned_by_relative_position_biases_the_expectation(bins, biased):
    """Bins of k/T know the length; the exact slope here is -0.0207."""
    world = Enumerated.random(0)
    layout = world.responses
    p, T = layout.spread(world.probability), layout.spread(layout.length)
    cell = np.minimum((layout.position / T * bins).astype(int), bins - 1)
    mass = np.bincount(cell, p, bins)[cell]
    targets = (layout.after(world.here.H), layout.remaining)
    b, c = (np.bincount(cell, p * y, bins)[cell] / mass for y in targets)
    sums = linear_statistics(
        layout,
        world.here,
        world.tangents,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=Baseline(b=b, c=c),
    )
    exact = oracles.first_derivative(
        oracles.entropy_per_sequence(world.policy), world.theta, dict(world.v)
    )
    assert exact == pytest.approx(-0.0207, abs=5e-5)
    got = linear_term(world.expectation(sums), per="sequence").value
    assert got == pytest.approx(biased, abs=5e-5)
