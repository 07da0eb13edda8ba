import numpy as np
import pytest

from entrometer.estimators import entropy, entropy_statistics


def test_expectation_is_the_exact_entropy(world, per, truth):
    sums = world.expectation(entropy_statistics(world.responses, world.here.H))
    exact = float(truth(world.theta))
    assert entropy(sums, per=per).value == pytest.approx(exact, rel=1e-12)


def test_surprisal_has_the_same_mean_and_a_larger_variance(world, per):
    p = world.probability
    totals = [world.responses.total(x) for x in (world.here.H, -world.here.S)]
    means = [float(p @ x) for x in totals]
    variances = [
        float(p @ (x - mean) ** 2) for x, mean in zip(totals, means, strict=True)
    ]
    assert means[0] == pytest.approx(means[1], rel=1e-12)
    assert variances[0] < variances[1]


def test_batch_value_is_the_ratio_of_sums(world, batch):
    H = batch.of(world.here).H
    sums = entropy_statistics(batch.responses, H)
    assert entropy(sums).value == pytest.approx(H.sum() / H.size, rel=1e-14)
    per_sequence = H.sum() / batch.responses.count
    assert entropy(sums, per="sequence").value == pytest.approx(per_sequence)


def test_pulls_are_the_derivative_under_reweighting_of_a_prompt(
    world, batch, per, pulls_by_reweighting
):
    sums = entropy_statistics(batch.responses, batch.of(world.here).H)
    pull = entropy(sums, per=per).pull
    expected = pulls_by_reweighting(lambda s: entropy(s, per=per), sums)
    assert np.abs(pull - expected).max() < 1e-9 * np.abs(pull).max()
    assert abs(pull.sum()) < 1e-14


def test_standard_error_is_the_exact_deviation(world, per, assert_standard_error):
    sums = entropy_statistics(world.responses, world.here.H)
    assert_standard_error(lambda s: entropy(s, per=per), sums)


def test_responses_of_a_prompt_are_one_unit(world, batch):
    """Each prompt written twice is no new information: the error must not shrink."""
    H = batch.of(world.here).H
    once = entropy(entropy_statistics(batch.responses, H))
    twice = type(batch.responses).from_lengths(
        np.tile(batch.responses.prompt, 2), np.tile(batch.responses.length, 2)
    )
    again = entropy(entropy_statistics(twice, np.tile(H, 2)))
    assert again.standard_error == pytest.approx(once.standard_error, rel=1e-12)
