"""The pass backwards with the sequences kept apart: rows of gradients."""

# Axes: B sequences, T tokens, I inputs, O outputs, R rank.

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from entrometer.estimators import GradientWeights
from entrometer.passes.batches import TOKEN_BUDGET, batches
from entrometer.passes.directions import require_differentiable
from entrometer.passes.forward import head_of, require_whole_vocabulary
from entrometer.passes.vjp import require_weights, vjp
from entrometer.policy.carrier import (
    adapter,
    adapter_parameters,
    is_adapted,
    merged_adapters,
)
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class GradientRows(NamedTuple):
    """Gradients of some sequences."""

    rows: Int[np.ndarray, " B"]
    """Number of each in the rollouts."""

    gradients: dict[str, Tensor]
    """By name of the trained parameter, a sequence a row in front."""


def per_sequence(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    *,
    names: Collection[str] | None = None,
    budget: int = TOKEN_BUDGET,
) -> Iterator[GradientRows]:
    r"""Rows $g_i = \sum_{k\in i} a^S_k\nabla S_k + a^H_k\nabla H_k$, batch by batch.

    For low-rank adapters in one forward and one backward: with x the input of an
    adapted layer and $\bar y$ the gradient at its output,
    $g_B = s\,\bar y^\top(Ax)$ and $g_A = s\,(B^\top\bar y)^\top x$ sequence by
    sequence. Where anything else is trained, one sequence at a time.

    Args:
        policy: At the parameters where gradients are taken.
        rollouts: The sequences.
        weights: $a^S$ and $a^H$ of every token.
        names: Trained parameters whose rows are wanted; all by default.
        budget: Padded tokens of a batch.
    """
    require_whole_vocabulary(rollouts)
    require_weights(rollouts, weights)
    require_differentiable(policy)
    if not _only_adapters(policy):
        yield from _one_by_one(policy, rollouts, weights, names)
        return
    head = head_of(policy, rollouts)
    for batch in batches(
        rollouts, device=policy.device, vocabulary=policy.vocabulary, budget=budget
    ):
        found: dict[str, Tensor] = {}
        with (
            merged_adapters(policy),
            _captured(policy, found, names),
            torch.enable_grad(),
        ):
            body: Any = policy.body
            embed: Any = policy.base.get_input_embeddings()  # type: ignore[operator]
            embedded = embed(batch.input_ids).detach().requires_grad_()
            h = body(
                inputs_embeds=embedded, use_cache=False, **batch.inputs
            ).last_hidden_state
            at = batch.columns
            pulled = torch.zeros_like(h)
            pulled[batch.scored] = head.vjp(
                h.detach()[batch.scored].to(head.weight),
                batch.targets,
                torch.as_tensor(weights.S[at]).to(head.weight),
                torch.as_tensor(weights.H[at]).to(head.weight),
            ).hidden.to(h)
            torch.autograd.grad(h, embedded, pulled)
        yield GradientRows(batch.rows, found)


def _only_adapters(policy: Policy) -> bool:
    """Whether all that is trained are halves of plain adapters of linear layers."""
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
    """While open, a backward through the model fills `into` with rows."""
    handles, frozen = [], []
    for name, module in policy.model.named_modules():
        if not is_adapted(module):
            continue
        trained = [p for p in module.parameters() if p.requires_grad]
        if trained:
            hook = _hook(name, module, into, names)
            handles.append(module.register_forward_hook(hook))
            frozen += trained
    # The rows are formed from the hooks: autograd need not form their sum as well.
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
    prefix: str,
    module: Any,
    into: dict[str, Tensor],
    names: Collection[str] | None,
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

        def on_gradient(y_BTO: Tensor) -> None:
            with torch.no_grad():
                if wants_A:
                    down_BTR = (y_BTO @ B_OR).mul_(s)
                    into[name_A] = down_BTR.mT @ x_BTI
                if wants_B:
                    up_BTR = (x_BTI @ A_RI.T).mul_(s)
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
    end = np.cumsum(rollouts.length)
    for row in range(rollouts.count):
        at = slice(end[row] - rollouts.length[row], end[row])
        own = GradientWeights(S=weights.S[at], H=weights.H[at])
        gradient = vjp(policy, rollouts.select(np.array([row])), own).gradient
        yield GradientRows(
            np.array([row]),
            {n: g[None] for n, g in gradient.items() if names is None or n in names},
        )
