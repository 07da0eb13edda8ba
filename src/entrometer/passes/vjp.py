"""The pass backwards: token weights in, a gradient out."""

# Axes: K tokens of all responses, B sequences, T tokens, C features.

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer.calculus import zeros_like
from entrometer.errors import ShapeMismatch
from entrometer.estimators import GradientWeights, Tables
from entrometer.passes.batches import TOKEN_BUDGET, Padding, batches
from entrometer.passes.directions import require_differentiable
from entrometer.passes.forward import head_of, require_whole_vocabulary
from entrometer.policy.carrier import merged_adapters
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class VjpPass(NamedTuple):
    """What the pass writes."""

    tables: Tables
    gradient: dict[str, Tensor]
    """By name of the trained parameter."""


def vjp(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> VjpPass:
    r"""Gradient $\sum_k a^S_k\nabla S_k + a^H_k\nabla H_k$ in the trained parameters.

    Reverse mode through the layers, closed form through the vocabulary head.
    """
    require_whole_vocabulary(rollouts)
    require_weights(rollouts, weights)
    require_differentiable(policy)
    head = head_of(policy, rollouts)
    named = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    gradient = zeros_like(policy.trained())
    head_name = policy.head_name
    S, H = np.empty((2, rollouts.tokens))
    with merged_adapters(policy):
        for batch in batches(
            rollouts, device=policy.device, budget=budget, padding=padding
        ):
            with torch.enable_grad():
                h = policy.hidden(batch.input_ids, **batch.inputs)
            at = batch.columns
            found = head.vjp(
                h.detach()[batch.scored].to(head.weight),
                batch.targets,
                torch.as_tensor(weights.S[at]).to(head.weight),
                torch.as_tensor(weights.H[at]).to(head.weight),
                weight_gradient=head_name is not None,
            )
            # Where the head alone is trained, nothing below it has a gradient.
            if h.requires_grad:
                pulled = torch.zeros_like(h)
                pulled[batch.scored] = found.hidden.to(h)
                parts = torch.autograd.grad(
                    h,
                    list(named.values()),
                    pulled,
                    allow_unused=True,
                    materialize_grads=True,
                )
                for name, part in zip(named, parts, strict=True):
                    gradient[name] += part
            if head_name is not None and found.weight is not None:
                gradient[head_name] += found.weight
            S[at], H[at] = found.S.cpu(), found.H.cpu()
    return VjpPass(Tables(S=S, H=H), gradient)


def require_weights(rollouts: Rollouts, weights: GradientWeights) -> None:
    """One weight a response token."""
    for name, column in weights._asdict().items():
        if column.shape != (rollouts.tokens,):
            raise ShapeMismatch(
                f"expected {rollouts.tokens} token weights of {name}, got "
                f"{column.shape}; make them on the layout of the same rollouts"
            )
