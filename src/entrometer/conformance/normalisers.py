"""Normalisers that losses are known to have, relative to ours."""

# Axes: B responses, T tokens of a response.

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from entrometer.conformance.scenarios import Scenario
from entrometer.interventions import TokenTables

Factor = Callable[[Scenario], Tensor | float]
"""Returns what each coefficient is multiplied by: a number, or one per response."""

_EPSILON = 1e-8
"""What several frameworks add to a divisor, so that it is never 0."""


def tokens(s: Scenario) -> float:
    """Return the number of counted tokens of the batch."""
    return float(s.tables.mask.sum())


def slots(s: Scenario) -> float:
    """Return the divisor of Dr-GRPO, the number of responses times the length limit."""
    return float(s.tables.count * s.tables.length_limit)


def lengths(s: Scenario) -> Tensor:
    """Return the counted tokens of each response, of shape (B, 1)."""
    return s.tables.mask.sum(dim=1, keepdim=True).double()


def micro_batches(s: Scenario) -> float:
    """Return the number of micro-batches."""
    return s.tables.count / (s.micro_batch or s.tables.count)


def micro_batch_tokens(s: Scenario) -> Tensor:
    """Return for each response the tokens of its micro-batch, times their number."""
    parts = lengths(s).split(s.micro_batch or s.tables.count)
    return torch.cat([p.sum().expand_as(p) for p in parts]) * len(parts)


def group_deviation(tables: TokenTables) -> Tensor:
    """Return the sample deviation of the rewards of each response's group, (B, 1)."""
    rewards = tables.A[:, :1]
    deviation = torch.empty_like(rewards)
    for group in tables.group.unique():
        members = tables.group == group
        # That of a single response is undefined; its advantage is 0 for any.
        deviation[members] = rewards[members].std() if members.sum() > 1 else 0.0
    return deviation


POLICY: dict[str, Factor] = {
    "mean over the tokens of the batch": lambda s: slots(s) / tokens(s),
    "mean over each response's tokens, then over responses": lambda s: (
        s.tables.length_limit / lengths(s)
    ),
    "sum over all tokens": slots,
    "sum over each response's tokens, mean over responses": lambda s: float(
        s.tables.length_limit
    ),
    "sum over all tokens ÷ length limit": lambda s: float(s.tables.count),
    f"mean over each response's tokens + {_EPSILON:g}, then over responses": lambda s: (
        s.tables.length_limit / (lengths(s) + _EPSILON)
    ),
    f"mean over each response's tokens + {_EPSILON:g}, then over responses + "
    f"{_EPSILON:g}": lambda s: (
        slots(s) / (lengths(s) + _EPSILON) / (s.tables.count + _EPSILON)
    ),
}
"""Ratio of another normaliser to Dr-GRPO's, the mean that most of our losses have."""

POLICY_BY_MICRO_BATCH: dict[str, Factor] = {
    "mean over each micro-batch's tokens, then over micro-batches": lambda s: (
        slots(s) / micro_batch_tokens(s)
    ),
    "mean over each micro-batch's tokens, summed over micro-batches": lambda s: (
        slots(s) / micro_batch_tokens(s) * micro_batches(s)
    ),
    "mean over each response's tokens and each micro-batch's responses, summed over "
    "micro-batches": lambda s: s.tables.length_limit / lengths(s) * micro_batches(s),
    "mean over each micro-batch's responses, summed over micro-batches": micro_batches,
}
"""The same for normalisers that depend on how the batch is split."""

ENTROPY: dict[str, Factor] = {
    "sum of the entropies ÷ (responses × length limit)": lambda s: tokens(s) / slots(s),
    "mean entropy of each response, then over responses": lambda s: (
        tokens(s) / (s.tables.count * lengths(s))
    ),
    "sum of the entropies": tokens,
    "sum of the entropies of each response, mean over responses": lambda s: (
        tokens(s) / s.tables.count
    ),
}
"""Ratio of another normaliser of an entropy bonus to ours, the mean over tokens."""

ENTROPY_BY_MICRO_BATCH: dict[str, Factor] = {
    "mean entropy of each micro-batch, then over micro-batches": lambda s: (
        tokens(s) / micro_batch_tokens(s)
    ),
    "mean entropy of each micro-batch, summed over micro-batches": lambda s: (
        tokens(s) / micro_batch_tokens(s) * micro_batches(s)
    ),
}
"""The same for normalisers that depend on how the batch is split."""

SETTINGS: dict[str, Factor] = {
    "the tokens of the batch": tokens,
    "responses × length limit": slots,
    "the length limit": lambda s: float(s.tables.length_limit),
    "responses × length limit ÷ tokens": lambda s: slots(s) / tokens(s),
    "2": lambda s: 2.0,
    "1/2": lambda s: 0.5,
}
"""Factors by which a setting may act more than it does in ours."""

_OURS = 1e-4


def _deviation_plus(epsilon: float, s: Scenario) -> Tensor:
    deviation = group_deviation(s.tables)
    return (deviation + _OURS) / (deviation + epsilon)


DEVIATION: dict[str, Factor] = {
    f"advantages over the deviation + {epsilon:g}, ours + {_OURS:g}": partial(
        _deviation_plus, epsilon
    )
    for epsilon in (1e-6, 1e-8, 1e-9, 0.0)
}
"""Ratio of another scale of GRPO's advantages to ours."""
