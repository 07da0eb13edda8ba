"""Reverse pass: token weights in, a gradient out."""

# Axes: K tokens of all responses, B sequences, T tokens; M sets of weights, of which R
# are independent, N numbers in each.

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import qr, solve_triangular
from torch import Tensor

from entrometer.calculus import zeros_like
from entrometer.calculus.sharded import summed_like
from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators import GradientWeights, Tables
from entrometer.passes.batches import TOKEN_BUDGET, Batch, Padding
from entrometer.passes.columns import Columns, own_batches
from entrometer.passes.forward import head_of, require_differentiable
from entrometer.policy.adapted_linear import merged_adapters
from entrometer.policy.mixed import bfloat16_products
from entrometer.policy.policy import Policy
from entrometer.policy.recomputation import recomputed_layers
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
    make_head = head_of(policy, rollouts)
    for each in weights:
        require_weights(rollouts, each)
    require_differentiable(policy)
    gradients = [zeros_like(policy.trained()) for _ in weights]
    head_name = policy.head_name
    columns = Columns(policy, rollouts, 2)

    def pulled_back(
        batch: Batch, h: Tensor, each: GradientWeights
    ) -> tuple[Tensor, ...]:
        # The head's gradient is in closed form, so no graph holds logits.
        head, at = make_head(), batch.columns
        pulled = head.vjp(
            batch.at_scored(h.detach()).to(head.weight),
            batch.targets,
            torch.as_tensor(each.S[at]).to(head.weight),
            torch.as_tensor(each.H[at]).to(head.weight),
            weight_gradient=head_name is not None,
        )
        columns.fill(batch, (pulled.S, pulled.H))
        below = batch.from_scored(pulled.hidden, h)
        return (below,) if pulled.weight is None else (below, pulled.weight)

    with merged_adapters(policy), bfloat16_products(policy):
        for batch in own_batches(policy, rollouts, budget, padding):
            # Otherwise the inside of every layer would be kept, tokens or weights that
            # are too many already.
            large = policy.mesh is not None or batch.input_ids.numel() > budget
            layers = recomputed_layers(policy) if large else nullcontext()
            with torch.enable_grad(), layers:
                h = policy.within(
                    partial(policy.hidden, batch.input_ids, **batch.inputs)
                )
            # All processes of a group take the same number of backward passes.
            at = batch.columns if batch.together is None else batch.together
            chosen, combined = independent(
                np.stack([np.concatenate([x.S[at], x.H[at]]) for x in weights])
            )
            for number, place in enumerate(chosen):
                below, *head_parts = policy.within(
                    partial(pulled_back, batch, h, weights[place])
                )
                # Where the head alone is trained, nothing below it has a gradient.
                # The graph is freed with the last set: the next batch needs room.
                again = number + 1 < len(chosen)
                parts = _below_head(policy, h, below, again) if h.requires_grad else {}
                for name, part in parts.items():
                    _add(gradients, name, part, combined[:, number])
                # A tied head adds to the gradient that the embedding already has.
                for part in head_parts:
                    assert head_name is not None, "the head is trained"
                    summed = summed_like(part, gradients[0][head_name])
                    _add(gradients, head_name, summed, combined[:, number])
    return VjpsPass(Tables(*columns.filled()), gradients)


def _below_head(
    policy: Policy, h: Tensor, cotangent: Tensor, again: bool
) -> dict[str, Tensor]:
    """Return the gradient that a cotangent of hidden states has in the parameters.

    `again` keeps the graph for another cotangent.
    """
    named = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    if policy.mesh is None:
        parts = torch.autograd.grad(
            h,
            list(named.values()),
            cotangent,
            retain_graph=again,
            allow_unused=True,
            materialize_grads=True,
        )
        return dict(zip(named, parts, strict=True))
    # FSDP adds processes up only in what it accumulates.
    torch.autograd.backward(h, cotangent, retain_graph=again)
    found = {n: p.grad for n, p in named.items() if p.grad is not None}
    for p in named.values():
        p.grad = None
    return found


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
