import pytest
import torch
from torch.distributions import Categorical

from entrometer.errors import InvalidValue
from entrometer.tokens import token_logprobs


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
