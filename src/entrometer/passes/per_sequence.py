"""Reverse pass with one gradient per sequence."""

# Axes: B sequences, T tokens, I inputs, O outputs, R rank.

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from entrometer.calculus.sharded import rows_of
from entrometer.estimators import GradientWeights
from entrometer.passes.batches import TOKEN_BUDGET, Batch
from entrometer.passes.columns import policy_batches
from entrometer.passes.forward import head_of, require_differentiable
from entrometer.passes.vjp import require_weights, vjp
from entrometer.policy.adapted_linear import (
    adapter,
    adapter_parameters,
    is_adapted,
    merged_adapters,
)
from entrometer.policy.mixed import bfloat16_products
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class GradientRows(NamedTuple):
    """Gradients of the sequences of one batch."""

    rows: Int[np.ndarray, " B"]
    """Row of each sequence in the rollouts."""

    gradients: dict[str, Tensor]
    """Gradients by name of the trained parameter, sequences along the first axis.

    In a group, those of the parameters' rows that this process has.
    """


def per_sequence(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    *,
    names: Collection[str] | None = None,
    budget: int = TOKEN_BUDGET,
) -> Iterator[GradientRows]:
    r"""Yield rows $g_i = \sum_{k\in i} a^S_k\nabla S_k + a^H_k\nabla H_k$ by batch.

    For low-rank adapters in one forward and one backward: with x the input of an
    adapted layer and $\bar y$ the gradient at its output,
    $g_B = s\,\bar y^\top(Ax)$ and $g_A = s\,(B^\top\bar y)^\top x$ for each
    sequence. Where anything else is trained, one sequence at a time. `names` selects
    trained parameters; all by default.
    """
    require_weights(rollouts, weights)
    require_differentiable(policy)
    if policy.mesh is not None or not _only_adapters(policy):
        yield from _one_by_one(policy, rollouts, weights, names)
        return
    head = head_of(policy, rollouts)()
    # A shared prompt would have one gradient for all of its responses.
    for batch in policy_batches(policy, rollouts, budget, "right"):
        gradients: dict[str, Tensor] = {}
        with (
            merged_adapters(policy),
            bfloat16_products(policy),
            _captured(policy, gradients, names),
            torch.enable_grad(),
        ):
            h, embedded = _hidden_and_leaf(policy, batch)
            at = batch.columns
            pulled = head.vjp(
                batch.at_scored(h.detach()).to(head.weight),
                batch.targets,
                torch.as_tensor(weights.S[at]).to(head.weight),
                torch.as_tensor(weights.H[at]).to(head.weight),
            )
            cotangent = batch.from_scored(pulled.hidden, h)
            torch.autograd.grad(h, embedded, cotangent)
        yield GradientRows(batch.rows, gradients)


def _hidden_and_leaf(policy: Policy, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return hidden states, and the embedded tokens that they were computed from."""
    # No parameter requires a gradient here, so autograd needs another leaf to run
    # backwards to. By a hook: some models scale their embeddings only themselves.
    leaves = []

    def on_embedded(_: Any, __: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    embedding: Any = policy.base.get_input_embeddings()  # type: ignore[operator]
    handle = embedding.register_forward_hook(on_embedded)
    try:
        h = policy.hidden(batch.input_ids, **batch.inputs)
    finally:
        handle.remove()
    return h, leaves[0]


def _only_adapters(policy: Policy) -> bool:
    """Return whether only factors of plain adapters of linear layers are trained."""
    # By identity: the same parameter has other names in its module and in the model.
    halves = {
        id(half)
        for module in policy.model.modules()
        if is_adapted(module)
        for half in adapter_parameters(module).values()
    }
    trained = [p for p in policy.model.parameters() if p.requires_grad]
    return all(id(p) in halves for p in trained)


@contextmanager
def _captured(
    policy: Policy, into: dict[str, Tensor], names: Collection[str] | None
) -> Iterator[None]:
    """Fill `into` with rows when autograd runs backwards through the model."""
    handles, frozen = [], []
    for name, module in policy.model.named_modules():
        if not is_adapted(module):
            continue
        trained = [p for p in module.parameters() if p.requires_grad]
        if trained:
            hook = _hook(name, module, into, names)
            handles.append(module.register_forward_hook(hook))
            frozen += trained
    # The hooks form the rows, so autograd need not form their sum as well.
    for p in frozen:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in frozen:
            p.requires_grad_(True)
        for handle in handles:
            handle.remove()


def _hook(
    prefix: str, module: Any, into: dict[str, Tensor], names: Collection[str] | None
) -> Any:
    A_RI, B_OR, s = adapter(module)
    halves = {f"{prefix}.{n}": half for n, half in adapter_parameters(module).items()}
    name_A, name_B = halves
    wants_A, wants_B = (
        half.requires_grad and (names is None or name in names)
        for name, half in halves.items()
    )

    def on_forward(_: Any, args: tuple[Tensor, ...], out: Tensor) -> None:
        x_BTI = args[0].detach()

        # One batched product contracts the tokens of each sequence.
        def on_gradient(y_BTO: Tensor) -> None:
            with torch.no_grad():
                # In mixed precision activations are narrower than adapters. In
                # DeepSeek's latent attention they have an axis of heads.
                y_BTO = y_BTO.to(B_OR).flatten(1, -2)
                x = x_BTI.to(A_RI).flatten(1, -2)
                if wants_A:
                    down_BTR = (y_BTO @ B_OR).mul_(s)
                    into[name_A] = down_BTR.mT @ x
                if wants_B:
                    up_BTR = (x @ A_RI.T).mul_(s)
                    into[name_B] = y_BTO.mT @ up_BTR

        if wants_A or wants_B:
            out.register_hook(on_gradient)

    return on_forward


def _one_by_one(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    names: Collection[str] | None,
) -> Iterator[GradientRows]:
    # Gradients of shared weights come out of autograd summed over the batch.
    end = np.cumsum(rollouts.length)
    for row in range(rollouts.count):
        at = slice(end[row] - rollouts.length[row], end[row])
        of_row = GradientWeights(S=weights.S[at], H=weights.H[at])
        gradient = vjp(policy, rollouts.select(np.array([row])), of_row).gradient
        yield GradientRows(
            np.array([row]),
            {
                n: rows_of(g)[None]
                for n, g in gradient.items()
                if names is None or n in names
            },
        )
