"""Sums over the vocabulary against whole logits."""

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import random_rollouts, relative, small_policy


def by_whole_logits(policy, rollouts):
    squared, surplus = [], []
    for p, r in zip(rollouts.prompt_tokens, rollouts.response_tokens, strict=True):
        ids = torch.as_tensor(np.concatenate([p, r]))[None]
        with torch.no_grad():
            z = policy.model(input_ids=ids).logits[0, len(p) - 1 : -1]
        log_p = (z / rollouts.sampler.temperature).log_softmax(-1)
        H = -(log_p.exp() * log_p).sum(-1, keepdim=True)
        squared.append((2 * log_p).exp().sum(-1))
        surplus.append(((2 * log_p).exp() * (log_p + H)).sum(-1))
    return torch.cat(squared), torch.cat(surplus)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", ["tiny", "gemma2"])
def test_it_is_the_sum_over_whole_logits(name, temperature):
    if name == "tiny":
        policy = tiny_policy(precision="float64")
    else:
        policy = small_policy(name, precision="float64")
    rollouts = random_rollouts(temperature=temperature)
    found = passes.concentration(policy, rollouts, budget=30)
    for ours, expected in zip(found, by_whole_logits(policy, rollouts), strict=True):
        assert relative(ours, expected) < 1e-12


def test_chunks_of_one_token_change_no_number():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 8, generator=generator, dtype=torch.float64)
    h = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    whole = passes.VocabularyHead(weight).concentration(h)
    apart = passes.VocabularyHead(weight, chunk_bytes=1).concentration(h)
    for a, b in zip(whole, apart, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=0)
