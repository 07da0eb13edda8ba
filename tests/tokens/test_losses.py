import math

import pytest
import torch

from entrometer.errors import ShapeMismatch
from entrometer.tokens import (
    centred_advantages,
    dr_grpo_loss,
    leave_one_out_advantages,
    loss_coefficients,
    response_mask,
)
from tests.tokens.unused_quantities import standardised_advantages

LIMIT = 10
# One row a case: ratio to the policy that sampled, advantage, does the gradient pass?
CASES = [
    (1.0, 2.0, True),
    (1.0, -2.0, True),
    (1.19, 1.0, True),
    (1.21, 1.0, False),
    (1.21, -1.0, True),
    (0.81, -1.0, True),
    (0.79, -1.0, False),
    (0.79, 1.0, True),
]


def tables(cases=CASES):
    ratio, A, passes = torch.tensor(cases, dtype=torch.float64).T
    generator = torch.Generator().manual_seed(0)
    S = -torch.rand(len(cases), 1, generator=generator, dtype=torch.float64)
    return S, S - ratio.log()[:, None], A, ratio, passes


def test_gradient_is_the_one_worked_by_hand_on_both_sides_of_the_clip():
    r"""$\alpha = rA/(BL)$, 0 where the advantage would push past the clip."""
    S, old, A, ratio, passes = tables()
    mask = torch.ones_like(S, dtype=torch.bool)
    alpha, gamma = loss_coefficients(
        lambda S, H: dr_grpo_loss(S, old, A, mask, length_limit=LIMIT),
        S,
        torch.ones_like(S),
    )
    expected = ratio * A * passes / (len(CASES) * LIMIT)
    assert torch.allclose(alpha[:, 0], expected, rtol=1e-13, atol=0)
    assert (gamma == 0).all()


def test_value_is_the_one_worked_by_hand_with_unequal_clips():
    S, old, A, ratio, _ = tables()
    mask = torch.ones_like(S, dtype=torch.bool)
    total = 0.0
    for r, a in zip(ratio.tolist(), A.tolist(), strict=True):
        total += min(r * a, min(max(r, 0.85), 1.3) * a)
    got = dr_grpo_loss(
        S, old, A, mask, length_limit=LIMIT, clip_low=0.15, clip_high=0.3
    )
    assert got.item() == pytest.approx(-total / (len(CASES) * LIMIT), rel=1e-13)


def test_short_and_long_responses_have_the_same_divisor_and_padding_no_say():
    S = torch.zeros(2, 3, dtype=torch.float64)
    A = torch.tensor([1.0, 5.0]).double()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    alpha, _ = loss_coefficients(
        lambda S, H: dr_grpo_loss(S, S.detach(), A, mask, length_limit=LIMIT), S, S
    )
    expected = torch.tensor([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]).double() / (2 * LIMIT)
    assert torch.allclose(alpha, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("padding", [-math.inf, 1e4, math.nan])
def test_whatever_fills_the_padding_leaves_value_and_gradient_alone(padding, advantage):
    mask = torch.tensor([[True, False]])
    S = torch.tensor([[-1.0, -2.0]]).double()
    old = torch.tensor([[-1.1, padding]]).double()
    A = torch.tensor([advantage]).double()

    def loss(S, H):
        return dr_grpo_loss(S, old, A, mask, length_limit=LIMIT)

    assert loss(S, S).item() == pytest.approx(-advantage * math.exp(0.1) / LIMIT)
    assert loss_coefficients(loss, S, S).alpha[0, 1].item() == 0.0


def test_entropy_term_shows_in_gamma_and_not_in_alpha():
    S, old, A, _, _ = tables()
    mask = torch.ones_like(S, dtype=torch.bool)
    H = torch.rand(S.shape, generator=torch.Generator().manual_seed(1)).double()

    def plain(S, H):
        return dr_grpo_loss(S, old, A, mask, length_limit=LIMIT)

    without = loss_coefficients(plain, S, H)
    with_bonus = loss_coefficients(lambda S, H: plain(S, H) - 0.3 * (H**2).sum(), S, H)
    assert torch.equal(with_bonus.alpha, without.alpha)
    assert torch.allclose(with_bonus.gamma, 0.6 * H, rtol=1e-15)


def test_loss_of_entropies_alone_has_zero_alpha():
    S = torch.zeros(2, 2)
    alpha, gamma = loss_coefficients(lambda S, H: -H.sum(), S, S)
    assert alpha.tolist() == [[0.0, 0.0]] * 2
    assert gamma.tolist() == [[1.0, 1.0]] * 2


def test_coefficients_leave_the_tables_without_a_graph():
    S = torch.zeros(1, 1, requires_grad=True)
    alpha, _ = loss_coefficients(lambda S, H: S.sum(), S, S)
    assert not alpha.requires_grad
    assert S.grad is None


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


@pytest.mark.parametrize("advantages", [leave_one_out_advantages])
def test_a_group_of_one_is_refused(advantages):
    with pytest.raises(ShapeMismatch, match="at least 2 responses per prompt, got 1"):
        advantages(torch.ones(3, 1))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([5, 2, 0, 3, 0], [True, True, True, False, False]),
        ([0, 0, 0, 0, 0], [True, False, False, False, False]),
        ([5, 2, 4, 3, 0], [True, True, True, True, True]),
        ([5, 2, 4, 3, 1], [True, True, True, True, True]),
    ],
    ids=["in the middle", "at once", "at the end", "cut at the limit"],
)
def test_first_eos_counts_and_nothing_after_it(tokens, expected):
    assert response_mask(torch.tensor([tokens]), eos=0).tolist() == [expected]


def test_rows_are_independent():
    tokens = torch.tensor([[7, 1], [1, 7], [7, 7]])
    expected = [[True, True], [True, False], [True, True]]
    assert response_mask(tokens, eos=1).tolist() == expected
