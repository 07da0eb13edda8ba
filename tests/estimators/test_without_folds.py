import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import (
    FoldContributions,
    by_fold,
    held_out_sums,
    over_folds,
    replicates,
    token_influence,
    variance_of_rest,
)


def test_the_jackknife_of_replicates_has_the_error_of_token_influence():
    """Also with unequal folds, for which the two variances have other factors."""
    rng = np.random.default_rng(0)
    size = np.array([0.4, 0.3, 0.2, 0.1])
    parts = FoldContributions(
        parts=rng.normal(size=(3, 4)),
        size=size,
        residual=(residual := rng.normal(size=4)) - residual.mean(),
        length=rng.normal(size=3),
    )
    influence = token_influence(parts, prompts=8, responses=8)
    x = replicates(influence.value, influence.fold_influence, size)
    for row in range(3):
        estimate, other = over_folds(x[row]), influence[row]
        assert estimate.value == other.value
        assert estimate.standard_error == pytest.approx(other.standard_error, rel=1e-12)
        assert estimate.low == pytest.approx(other.low, rel=1e-12)


def test_values_by_fold_have_the_value_as_their_mean():
    x = replicates(np.array([2.0]), np.array([[0.5, -0.2, -0.3]]), np.full(3, 1 / 3))
    assert by_fold(x).mean() == pytest.approx(2.0)


def test_a_ratio_on_shared_folds_has_a_fraction_of_the_error_of_its_parts():
    """Numerator and denominator move together: the noise that they share cancels."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=8)
    x = np.concatenate([[0.0], noise - noise.mean()])
    one, two = 10.0 + x, 20.0 + 2 * x
    assert over_folds(one / two).standard_error == pytest.approx(0.0, abs=1e-12)
    assert over_folds(one).standard_error > 0.1


def test_unmeasured_steps_add_the_variance_that_a_simulation_has():
    rng = np.random.default_rng(2)
    steps = np.array([4.0, 4.0, 2.0, 1.0, 8.0, 3.0])
    errors, stated = [], []
    for _ in range(4000):
        single = [rng.normal(-1.0, 0.3, size=int(s)) for s in steps]
        first = np.array([x[0] for x in single])
        errors.append((first * steps).sum() - sum(x.sum() for x in single))
        stated.append(variance_of_rest(first, steps)[0])
    assert np.mean(stated) == pytest.approx(np.var(errors), rel=0.06)


def test_every_step_measured_leaves_nothing_to_assume():
    assert variance_of_rest(np.array([1.0, 5.0]), np.ones(2)) == (0.0, np.inf)
    assert np.isnan(variance_of_rest(np.array([1.0]), np.array([2.0]))[0])


def test_held_out_sums_of_noise_are_not_negative_on_average():
    rng = np.random.default_rng(3)
    A, Q = 40, 8
    held_out, naive = [], []
    for _ in range(400):
        psi = rng.normal(size=(A, Q)) / Q
        value = psi.sum(axis=1)
        x = replicates(value, psi - value[:, None] / Q, np.full(Q, 1 / Q))
        held_out.append(held_out_sums(x).mean(axis=1)[A // 4])
        naive.append(np.sort(value)[: A // 4 + 1].sum())
    error = np.std(held_out) / np.sqrt(len(held_out))
    assert abs(np.mean(held_out)) < 4 * error
    assert np.mean(naive) < -10 * error


def test_held_out_sums_end_with_the_sum_over_all():
    rng = np.random.default_rng(4)
    psi = rng.normal(size=(5, 4))
    psi -= psi.mean(axis=1, keepdims=True)
    value = rng.normal(size=5)
    x = replicates(value, psi, np.full(4, 0.25))
    assert held_out_sums(x)[-1].mean() == pytest.approx(value.sum())


def test_a_single_fold_has_no_error():
    with pytest.raises(InvalidValue, match="at least 2 folds"):
        replicates(np.ones(1), np.zeros((1, 1)), np.ones(1))
