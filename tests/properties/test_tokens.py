"""Properties of entropies, log-probs, masks, advantages and losses."""

# Axes: B sequences, T completion tokens, V vocabulary.

import math

import torch
from hypothesis import strategies as st

from entrometer.tokens import (
    centred_advantages,
    dr_grpo_loss,
    leave_one_out_advantages,
    response_mask,
    token_entropy,
    token_logprobs,
)
from tests.tokens.unused_quantities import kept_entropy, standardised_advantages

from .property import Property, catches_broken_copy, each, holds, seeds, sizes

logit_cases = st.tuples(seeds, sizes, st.floats(0.1, 20.0), st.floats(0.3, 3.0))


def logits_of(seed, V, scale):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(2, 3, V, generator=generator, dtype=torch.float64)


def close(a, b, tolerance=1e-11):
    return (a - b).abs().max().item() <= tolerance * max(1.0, b.abs().max().item())


def within_bounds(entropy, case):
    seed, V, scale, temperature = case
    H = entropy(logits_of(seed, V, scale), temperature=temperature)
    assert H.min() > -1e-13
    assert H.max() < math.log(V) + 1e-13


def in_bits(z, temperature):
    # Compared in nats, a distribution near uniform has too many.
    return token_entropy(z, temperature=temperature) / math.log(2)


def unmoved_by_a_shift(entropy, case):
    seed, V, scale, temperature = case
    z = logits_of(seed, V, scale)
    shifted = z + torch.linspace(-9, 9, 6, dtype=z.dtype).reshape(2, 3, 1)
    assert close(
        entropy(shifted, temperature=temperature), entropy(z, temperature=temperature)
    )


def half_tempered(z, temperature):
    p = (z / temperature).softmax(dim=-1)
    return z.logsumexp(dim=-1) - (p * z / temperature).sum(dim=-1)


def unmoved_by_a_permutation(entropy, case):
    seed, V, scale, temperature = case
    z = logits_of(seed, V, scale)
    order = torch.randperm(V, generator=torch.Generator().manual_seed(seed))
    assert close(
        entropy(z[..., order], temperature=temperature),
        entropy(z, temperature=temperature),
    )


def without_the_last_token(z, temperature):
    return token_entropy(z[..., :-1], temperature=temperature)


def grows_with_temperature(entropy, case):
    seed, V, scale, temperature = case
    z = logits_of(seed, V, scale)
    hotter = entropy(z, temperature=1.5 * temperature)
    assert (hotter >= entropy(z, temperature=temperature) - 1e-13).all()


def at_inverse_temperature(z, temperature):
    return token_entropy(z * temperature)


def all_logprobs(logprobs, case):
    """Log-probability of every token of the vocabulary in turn."""
    seed, V, scale, temperature = case
    z = logits_of(seed, V, scale)
    tokens = [torch.full((2, 3), a) for a in range(V)]
    return torch.stack([logprobs(z, t, temperature=temperature) for t in tokens])


def normalised(logprobs, case):
    total = all_logprobs(logprobs, case).exp().sum(dim=0)
    assert close(total, torch.ones_like(total))


def tempered_afterwards(z, tokens, temperature):
    return token_logprobs(z, tokens) / temperature


def never_positive(logprobs, case):
    assert all_logprobs(logprobs, case).max() <= 1e-13


def against_the_mean(z, tokens, temperature):
    z = z / temperature
    return z.gather(-1, tokens[..., None])[..., 0] - z.mean(dim=-1)


def ends_at_the_first_eos(mask, case):
    seed, T = case[:2]
    tokens = torch.randint(3, (4, T), generator=torch.Generator().manual_seed(seed))
    for row, got in zip(tokens.tolist(), mask(tokens, eos=0).tolist(), strict=True):
        length = row.index(0) + 1 if 0 in row else T
        assert got == [k < length for k in range(T)]


def anything_but_eos(tokens, eos):
    return tokens != eos


def bounded_by_what_was_kept(kept, case):
    seed, V, scale, _ = case
    log_p = logits_of(seed, V, scale).log_softmax(dim=-1)
    H = -(log_p.exp() * log_p).sum(dim=-1)
    for A in range(1, V + 1):
        lower, tail_error = kept(log_p[..., :A], vocabulary=V)
        assert (lower <= H + 1e-12).all()
        assert (lower + tail_error >= H - 1e-12).all()


def renormalised(kept_logprobs, vocabulary):
    part = kept_logprobs.log_softmax(dim=-1)
    return kept_entropy(part, vocabulary=vocabulary)


def zero_in_each_group(advantages, case):
    seed, G = case[:2]
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(3, G, generator=generator, dtype=torch.float64)
    for one in advantages:
        assert one(rewards).sum(dim=1).abs().max() < 1e-10


def centred_on_the_batch(rewards):
    return rewards - rewards.mean()


def blind_to_padding(loss, case):
    seed, T = case[:2]
    generator = torch.Generator().manual_seed(seed)
    S, old, junk = torch.randn(3, 4, T, generator=generator, dtype=torch.float64)
    A = torch.randn(4, generator=generator, dtype=torch.float64)
    tokens = torch.randint(2, (4, T), generator=generator)
    tokens[0, 0] = 0
    mask = response_mask(tokens, eos=0)
    filled = torch.where(mask, S, junk)
    plain = loss(S, old, A, mask, length_limit=T)
    assert loss(filled, old, A, mask, length_limit=T) == plain
    assert loss(filled, torch.where(mask, old, junk), A, mask, length_limit=T) == plain


def unmasked(S, old, A, mask, length_limit):
    return dr_grpo_loss(S, old, A, torch.ones_like(mask), length_limit=length_limit)


PROPERTIES = [
    Property(
        "an entropy lies between 0 and log V",
        within_bounds,
        token_entropy,
        in_bits,
        logit_cases,
    ),
    Property(
        "an entropy does not change when all logits are shifted",
        unmoved_by_a_shift,
        token_entropy,
        half_tempered,
        logit_cases,
    ),
    Property(
        "an entropy does not change when the vocabulary is permuted",
        unmoved_by_a_permutation,
        token_entropy,
        without_the_last_token,
        logit_cases,
    ),
    Property(
        "an entropy grows with the temperature",
        grows_with_temperature,
        token_entropy,
        at_inverse_temperature,
        logit_cases,
    ),
    Property(
        "probabilities of all tokens add up to 1",
        normalised,
        token_logprobs,
        tempered_afterwards,
        logit_cases,
    ),
    Property(
        "a log-prob is never positive",
        never_positive,
        token_logprobs,
        against_the_mean,
        logit_cases,
    ),
    Property(
        "a response ends with its first EOS",
        ends_at_the_first_eos,
        response_mask,
        anything_but_eos,
    ),
    Property(
        "bounds from a kept part hold the whole entropy",
        bounded_by_what_was_kept,
        kept_entropy,
        renormalised,
        logit_cases,
    ),
    Property(
        "advantages of a group add up to 0",
        zero_in_each_group,
        [centred_advantages, leave_one_out_advantages, standardised_advantages],
        [centred_on_the_batch],
    ),
    Property("padding has no say in a loss", blind_to_padding, dr_grpo_loss, unmasked),
]


@each(PROPERTIES)
def test_holds(it):
    holds(it)


@each(PROPERTIES)
def test_catches_broken_copy(it):
    catches_broken_copy(it)
