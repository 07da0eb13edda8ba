"""Reverse pass: token weights in, a gradient out."""

# Axes: K tokens of all responses, B sequences, T tokens; M sets of weights, of which R
# are independent, N numbers in each.

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import qr, solve_triangular
from torch import Tensor

from entrometer.calculus import zeros_like
from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators import GradientWeights, Tables
from entrometer.passes.batches import TOKEN_BUDGET, Padding
from entrometer.passes.forward import head_of, policy_batches, require_differentiable
from entrometer.policy.adapted_linear import merged_adapters
from entrometer.policy.mixed import bfloat16_products
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

_DEPENDENT = 1e-11
"""Part of a set of weights, relative to the largest, that is rounding."""


class VjpPass(NamedTuple):
    """S and H of each response token, and the gradient of their weighted sum."""

    tables: Tables
    gradient: dict[str, Tensor]
    """Gradient by name of the trained parameter."""


class VjpsPass(NamedTuple):
    """S and H of each response token, and gradients of their weighted sums."""

    tables: Tables
    gradients: list[dict[str, Tensor]]
    """One gradient per set of weights, by name of the trained parameter."""


def vjp(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> VjpPass:
    r"""Return $\sum_k a^S_k\nabla S_k + a^H_k\nabla H_k$ in the trained parameters.

    Reverse mode through the layers, closed form through the vocabulary head.
    """
    many = vjps(policy, rollouts, [weights], budget=budget, padding=padding)
    return VjpPass(many.tables, many.gradients[0])


def vjps(
    policy: Policy,
    rollouts: Rollouts,
    weights: Sequence[GradientWeights],
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> VjpsPass:
    """Return the gradients of `vjp` for several sets of weights, from one forward.

    A gradient is linear in its weights, so that only sets that are independent of one
    another on a batch cost a backward pass.
    """
    if not weights:
        raise InvalidValue(
            "expected at least one set of token weights, got none; pass those of the "
            "quantity whose gradient is asked for"
        )
    head = head_of(policy, rollouts)
    for each in weights:
        require_weights(rollouts, each)
    require_differentiable(policy)
    named = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    gradients = [zeros_like(policy.trained()) for _ in weights]
    head_name = policy.head_name
    S, H = np.empty((2, rollouts.tokens))
    with merged_adapters(policy), bfloat16_products(policy):
        for batch in policy_batches(policy, rollouts, budget, padding):
            with torch.enable_grad():
                h = policy.hidden(batch.input_ids, **batch.inputs)
            at = batch.columns
            chosen, combined = independent(
                np.stack([np.concatenate([x.S[at], x.H[at]]) for x in weights])
            )
            for number, place in enumerate(chosen, start=1):
                each = weights[place]
                # The head's gradient is in closed form, so no graph holds logits.
                pulled = head.vjp(
                    batch.at_scored(h.detach()).to(head.weight),
                    batch.targets,
                    torch.as_tensor(each.S[at]).to(head.weight),
                    torch.as_tensor(each.H[at]).to(head.weight),
                    weight_gradient=head_name is not None,
                )
                # Where the head alone is trained, nothing below it has a gradient.
                if h.requires_grad:
                    parts = torch.autograd.grad(
                        h,
                        list(named.values()),
                        batch.from_scored(pulled.hidden, h),
                        # Freed with the last set, before the next batch needs room.
                        retain_graph=number < len(chosen),
                        allow_unused=True,
                        materialize_grads=True,
                    )
                    for name, part in zip(named, parts, strict=True):
                        _add(gradients, name, part, combined[:, number - 1])
                # A tied head adds to the gradient that the embedding already has.
                if head_name is not None and pulled.weight is not None:
                    _add(gradients, head_name, pulled.weight, combined[:, number - 1])
                S[at], H[at] = pulled.S.cpu(), pulled.H.cpu()
    return VjpsPass(Tables(S=S, H=H), gradients)


def _add(
    gradients: Sequence[dict[str, Tensor]], name: str, part: Tensor, times: np.ndarray
) -> None:
    for i in np.flatnonzero(times).tolist():
        gradients[i][name].add_(part, alpha=float(times[i]))


def independent(
    rows: Float[np.ndarray, "M N"],
) -> tuple[list[int], Float[np.ndarray, "M R"]]:
    r"""Return R rows that span all M, and C with $\text{rows} = C\,\text{rows}_R$.

    At least one row, because the pass over it also gives the tables.
    """
    _, R, order = qr(rows.T, mode="economic", pivoting=True)
    size = np.abs(np.diagonal(R))
    rank = max(1, int((size > _DEPENDENT * size[0]).sum()))
    C = np.zeros((len(rows), rank))
    C[order[:rank]] = np.eye(rank)
    if size[0] > 0:
        C[order[rank:]] = solve_triangular(R[:rank, :rank], R[:rank, rank:]).T
    # In the order they were given: that of a sum decides its rounding.
    chosen = np.argsort(order[:rank])
    return order[:rank][chosen].tolist(), C[:, chosen]


def require_weights(rollouts: Rollouts, weights: GradientWeights) -> None:
    """Raise unless there is one weight of S and one of H per response token."""
    for name, column in weights._asdict().items():
        if column.shape != (rollouts.tokens,):
            raise ShapeMismatch(
                f"expected {rollouts.tokens} token weights of {name}, got "
                f"{column.shape}; make them on the layout of the same rollouts"
            )
