import pytest
import torch

from entrometer.errors import ShapeMismatch
from entrometer.tokens import (
    centred_advantages,
    leave_one_out_advantages,
    standardised_advantages,
)

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 1.0], [2.0, -1.0, 0.5, 0.5]]).double()


def test_centred_takes_off_the_mean_of_the_group():
    expected = [[0.5, -0.5, -0.5, 0.5], [1.5, -1.5, 0.0, 0.0]]
    assert centred_advantages(REWARDS).tolist() == expected


def test_standardised_divides_by_the_sample_deviation():
    deviation = torch.tensor([(1 / 3) ** 0.5, 1.5**0.5]).double()[:, None]
    expected = centred_advantages(REWARDS) / (deviation + 1e-4)
    got = standardised_advantages(REWARDS)
    assert torch.allclose(got, expected, rtol=1e-7)
    sharp = standardised_advantages(REWARDS, epsilon=0.0)
    assert torch.allclose(sharp.var(dim=1), torch.ones(2).double(), rtol=1e-14)


def test_standardised_of_equal_rewards_is_zero_and_not_nan():
    assert standardised_advantages(torch.ones(1, 4)).tolist() == [[0.0] * 4]


def test_leave_one_out_takes_off_the_mean_of_the_others():
    expected = torch.empty_like(REWARDS)
    for p in range(2):
        for g in range(4):
            others = torch.cat([REWARDS[p, :g], REWARDS[p, g + 1 :]])
            expected[p, g] = REWARDS[p, g] - others.mean()
    got = leave_one_out_advantages(REWARDS)
    assert torch.allclose(got, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "advantages", [standardised_advantages, leave_one_out_advantages]
)
def test_a_group_of_one_is_refused(advantages):
    with pytest.raises(ShapeMismatch, match="at least 2 responses a prompt, got 1"):
        advantages(torch.ones(3, 1))
