import numpy as np
import pytest

from entrometer.estimators import Responses, entropy, entropy_statistics


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


def test_prompt_influences_are_the_derivative_under_reweighting_of_a_prompt(
    world, batch, per, pulls_by_reweighting
):
    sums = entropy_statistics(batch.responses, batch.of(world.here).H)
    pull = entropy(sums, per=per).prompt_influence
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


def test_a_sum_of_entropies_can_vary_more_than_the_surprisal():
    """First token a (1/3) or b (2/3), after b a fair coin: each response has 1/3."""
    responses = Responses.from_lengths(np.arange(3), np.array([1, 2, 2]))
    first = np.log(3) - 2 / 3 * np.log(2)
    H = np.array([first, first, np.log(2), first, np.log(2)])
    S = np.log([1 / 3, 2 / 3, 1 / 2, 2 / 3, 1 / 2])
    by_entropy = entropy(entropy_statistics(responses, H), per="sequence")
    by_surprisal = entropy(entropy_statistics(responses, -S), per="sequence")
    assert by_entropy.value == pytest.approx(by_surprisal.value, rel=1e-14)
    assert by_surprisal.standard_error < 1e-12 < 0.2 < by_entropy.standard_error
