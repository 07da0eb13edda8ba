"""The pass backwards: token weights in, a gradient out."""

# Axes: K tokens of all responses, B sequences, T tokens, C features.

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer.calculus import zeros_like
from entrometer.errors import InvalidValue, ShapeMismatch
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


class VjpsPass(NamedTuple):
    """What a pass with several sets of token weights writes."""

    tables: Tables
    gradients: list[dict[str, Tensor]]
    """One a set of weights, by name of the trained parameter."""


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
    found = vjps(policy, rollouts, [weights], budget=budget, padding=padding)
    return VjpPass(found.tables, found.gradients[0])


def vjps(
    policy: Policy,
    rollouts: Rollouts,
    weights: Sequence[GradientWeights],
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> VjpsPass:
    """The gradients of `vjp` for several sets of weights, from one pass forwards."""
    if not weights:
        raise InvalidValue(
            "expected at least one set of token weights, got none; pass those of the "
            "quantity whose gradient is asked for"
        )
    require_whole_vocabulary(rollouts)
    for each in weights:
        require_weights(rollouts, each)
    require_differentiable(policy)
    head = head_of(policy, rollouts)
    named = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    gradients = [zeros_like(policy.trained()) for _ in weights]
    head_name = policy.head_name
    S, H = np.empty((2, rollouts.tokens))
    with merged_adapters(policy):
        for batch in batches(
            rollouts,
            device=policy.device,
            vocabulary=policy.vocabulary,
            budget=budget,
            padding=padding,
        ):
            with torch.enable_grad():
                h = policy.hidden(batch.input_ids, **batch.inputs)
            at = batch.columns
            for number, (each, gradient) in enumerate(
                zip(weights, gradients, strict=True), start=1
            ):
                found = head.vjp(
                    h.detach()[batch.scored].to(head.weight),
                    batch.targets,
                    torch.as_tensor(each.S[at]).to(head.weight),
                    torch.as_tensor(each.H[at]).to(head.weight),
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
                        retain_graph=number < len(weights),
                        allow_unused=True,
                        materialize_grads=True,
                    )
                    for name, part in zip(named, parts, strict=True):
                        gradient[name] += part
                if head_name is not None and found.weight is not None:
                    gradient[head_name] += found.weight
                S[at], H[at] = found.S.cpu(), found.H.cpu()
    return VjpsPass(Tables(S=S, H=H), gradients)


def require_weights(rollouts: Rollouts, weights: GradientWeights) -> None:
    """One weight a response token."""
    for name, column in weights._asdict().items():
        if column.shape != (rollouts.tokens,):
            raise ShapeMismatch(
                f"expected {rollouts.tokens} token weights of {name}, got "
                f"{column.shape}; make them on the layout of the same rollouts"
            )
