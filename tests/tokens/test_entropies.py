import math

import pytest
import torch
from torch.distributions import Categorical

from entrometer.errors import InvalidValue
from entrometer.tokens import token_entropy, token_logprobs
from tests.tokens.unused_quantities import kept_entropy


def random_logits(scale=2.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(3, 5, 11, generator=generator, dtype=dtype)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_entropy_is_that_of_the_distribution_sampled_from(temperature):
    z = random_logits()
    expected = Categorical(logits=z / temperature).entropy()
    got = token_entropy(z, temperature=temperature)
    assert torch.allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_two_equal_tokens_have_one_bit():
    z = torch.tensor([[[3.0, 3.0, -800.0]]], dtype=torch.float64)
    assert token_entropy(z).item() == pytest.approx(math.log(2), rel=1e-15)


def test_gradient_is_the_one_worked_by_hand():
    r"""$\partial H/\partial z_a = -p_a(\log p_a + H)$."""
    z = random_logits().requires_grad_()
    H = token_entropy(z)
    (got,) = torch.autograd.grad(H.sum(), z)
    log_p = z.log_softmax(dim=-1)
    expected = -log_p.exp() * (log_p + H[..., None])
    assert torch.allclose(got, expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("offset", [0.0, 30.0, 1000.0])
def test_float32_loses_no_more_than_the_rounding_of_the_logits(offset):
    """A logit of size z is known to z/2^24; an entropy cannot be asked for more."""
    z = random_logits(scale=15.0, dtype=torch.float32) + offset
    exact = token_entropy(z.double())
    rounding = z.abs().max().item() * 2.0**-24
    assert (token_entropy(z).double() - exact).abs().max().item() < 8 * rounding


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_temperature_that_is_no_policy_is_refused(temperature):
    with pytest.raises(InvalidValue, match="expected temperature > 0"):
        token_entropy(random_logits(), temperature=temperature)


@pytest.mark.parametrize("kept", [1, 4, 10, 11])
def test_kept_part_satisfies_the_identity_with_the_entropy_of_the_tail(kept):
    r"""$H = \text{lower} + \varepsilon H(\text{tail})$ whatever is kept."""
    log_p = random_logits().log_softmax(dim=-1)
    tail = log_p[..., kept:].exp()
    epsilon = tail.sum(dim=-1)
    H_tail = -torch.xlogy(tail, tail / epsilon[..., None]).sum(dim=-1)
    got = kept_entropy(log_p[..., :kept], vocabulary=11)
    exact = Categorical(logits=log_p).entropy()
    # H(tail) is already weighted by the mass here.
    assert torch.allclose(got.lower + H_tail, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kept", [1, 4, 10, 11])
def test_kept_bounds_hold_the_whole_entropy(kept):
    top = random_logits().log_softmax(dim=-1).sort(dim=-1, descending=True).values
    H = Categorical(logits=top).entropy()
    got = kept_entropy(top[..., :kept], vocabulary=11)
    assert (got.lower <= H + 1e-13).all()
    assert (got.lower + got.tail_error + 1e-13 >= H).all()


def test_kept_bounds_are_reached():
    log_half = torch.tensor([0.5], dtype=torch.float64).log()
    single = kept_entropy(log_half, vocabulary=2)
    assert single.lower.item() == pytest.approx(math.log(2), rel=1e-15)
    assert single.tail_error.item() == 0.0
    even = kept_entropy(log_half, vocabulary=9)
    spread = torch.tensor([0.5] + [0.5 / 8] * 8, dtype=torch.float64)
    upper = (even.lower + even.tail_error).item()
    assert upper == pytest.approx(Categorical(spread).entropy().item(), rel=1e-14)


def test_a_kept_token_without_mass_adds_nothing():
    log_p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).log()
    assert kept_entropy(log_p, vocabulary=5).lower.item() == pytest.approx(math.log(2))


def test_more_kept_than_the_vocabulary_is_refused():
    with pytest.raises(InvalidValue, match="at most vocabulary=3 kept"):
        kept_entropy(torch.zeros(4), vocabulary=3)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_logprob_is_that_of_the_distribution_sampled_from(temperature):
    generator = torch.Generator().manual_seed(0)
    z = 2 * torch.randn(3, 5, 11, generator=generator, dtype=torch.float64)
    tokens = torch.randint(11, (3, 5), generator=generator)
    expected = Categorical(logits=z / temperature).log_prob(tokens)
    got = token_logprobs(z, tokens, temperature=temperature)
    assert torch.allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_each_token_takes_its_own_logit():
    z = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]], dtype=torch.float64)
    got = token_logprobs(z, torch.tensor([[0, 1]]))[0].exp()
    e = torch.tensor(1.0, dtype=torch.float64).exp().item()
    assert got.tolist() == pytest.approx([1 / (1 + e), e / (1 + e)], rel=1e-14)


def test_greedy_decoding_is_refused():
    with pytest.raises(InvalidValue, match="pass the temperature"):
        token_logprobs(
            torch.zeros(1, 1, 2), torch.zeros(1, 1, dtype=int), temperature=0.0
        )
