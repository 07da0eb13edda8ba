"""The pass that only looks: S and H, here and at other parameters."""

# Axes: K tokens of all responses (layout: Responses).

from collections.abc import Sequence

import numpy as np
import torch

from entrometer.calculus import Vector
from entrometer.errors import InvalidValue
from entrometer.estimators import Tables
from entrometer.passes.batches import TOKEN_BUDGET, Padding, batches
from entrometer.passes.head import VocabularyHead
from entrometer.policy.moved import moved
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


def forward(
    policy: Policy,
    rollouts: Rollouts,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> Tables:
    r"""Log-prob $S_k$ and whole-vocabulary entropy $H_k$ of every response token.

    At the temperature that the rollouts were sampled with: it is part of the policy.
    """
    require_whole_vocabulary(rollouts)
    head = head_of(policy, rollouts)
    S, H = np.empty((2, rollouts.tokens))
    with torch.no_grad():
        for batch in batches(
            rollouts,
            device=policy.device,
            vocabulary=policy.vocabulary,
            budget=budget,
            padding=padding,
        ):
            h = policy.hidden(batch.input_ids, **batch.inputs)[batch.scored]
            S_N, H_N = head.forward(h.to(head.weight), batch.targets)
            S[batch.columns], H[batch.columns] = S_N.cpu(), H_N.cpu()
    return Tables(S=S, H=H)


def forward_along(
    policy: Policy,
    rollouts: Rollouts,
    direction: Vector,
    etas: Sequence[float],
    *,
    budget: int = TOKEN_BUDGET,
) -> list[Tables]:
    r"""Tables at $\theta + \eta v$ for each $\eta$."""
    tables = []
    for eta in etas:
        with moved(policy, direction, eta) as there:
            tables.append(forward(there, rollouts, budget=budget))
    return tables


def head_of(policy: Policy, rollouts: Rollouts) -> VocabularyHead:
    """The policy's head at the temperature of the rollouts.

    In float32 at least: a log-prob in bfloat16 has two digits. Every pass asks for it,
    so here a model that draws its dropout is refused.
    """
    if policy.model.training:
        raise InvalidValue(
            "expected a policy in evaluation mode, got one in training mode, where "
            "dropout makes every pass another; call policy.model.eval()"
        )
    weight = policy.head_weight
    return VocabularyHead(
        weight=weight.to(torch.promote_types(weight.dtype, torch.float32)),
        softcap=policy.softcap,
        temperature=rollouts.sampler.temperature,
    )


def require_whole_vocabulary(rollouts: Rollouts) -> None:
    """Refuse responses that were not drawn from the policy that is measured."""
    sampler = rollouts.sampler
    if sampler.top_k != 0 or sampler.top_p != 1.0:
        raise InvalidValue(
            "expected responses sampled from the whole vocabulary, got "
            f"top_k={sampler.top_k}, top_p={sampler.top_p}; that is another policy: "
            "sample with top_k=0 and top_p=1"
        )
