"""The pass along directions: S, H and their derivatives, in forward mode."""

# Axes: K tokens of all responses, M = 1 + D blocks, B sequences, T tokens, C features.

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from entrometer import calculus
from entrometer.calculus import Vector
from entrometer.estimators import Tables, Tangents
from entrometer.passes.batches import TOKEN_BUDGET, Batch, Padding, batches
from entrometer.passes.directions import aligned
from entrometer.passes.forward import head_of, require_whole_vocabulary
from entrometer.policy import attention
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.carrier import carrying
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

Hidden = Callable[[Batch], Float[Tensor, "M B T C"]]
"""Hidden states of a batch in block 0, their tangents in the others."""


class JvpPass(NamedTuple):
    """What the pass writes, and how it went."""

    tables: Tables
    tangents: list[Tangents]
    """One a direction."""

    by: str
    """`tangent rules`, or `forward-mode AD` for want of rules: several times slower."""


def jvp(
    policy: Policy,
    rollouts: Rollouts,
    directions: Sequence[Vector],
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> JvpPass:
    r"""$\nabla_vS_k$ and $\nabla_vH_k$ of every response token, for each direction.

    Directions share the primal and every product with the weights. Trained low-rank
    adapters of a known architecture go by explicit tangent rules, about two forwards;
    anything else by forward-mode AD, and the result says which.
    """
    require_whole_vocabulary(rollouts)
    head = head_of(policy, rollouts)
    directions = aligned(policy, directions)
    D = len(directions)
    S, H = np.empty((2, rollouts.tokens))
    dS, dH = np.empty((2, D, rollouts.tokens))
    head_name = policy.head_name
    dweight = [v.get(head_name) if head_name else None for v in directions]
    with tangent_hidden(policy, directions) as (hidden, by):
        for batch in batches(
            rollouts,
            device=policy.device,
            vocabulary=policy.vocabulary,
            budget=max(1, budget // (1 + D)),
            padding=padding,
        ):
            h = hidden(batch)[:, batch.scored].to(head.weight)
            found = head.jvp(h[0], h[1:], batch.targets, dweight)
            at = batch.columns
            S[at], H[at] = found.S.cpu(), found.H.cpu()
            dS[:, at], dH[:, at] = found.dS.cpu(), found.dH.cpu()
    tangents = [Tangents(dS=dS[d], dH=dH[d]) for d in range(D)]
    return JvpPass(Tables(S=S, H=H), tangents, by)


_CHECKED: WeakSet[nn.Module] = WeakSet()


@contextmanager
def tangent_hidden(
    policy: Policy, directions: Sequence[Vector]
) -> Iterator[tuple[Hidden, str]]:
    """Hidden states with tangents, by rules where there are any.

    The first time a model is carried it is held against forward-mode AD on a few
    tokens, for a rule that is missing would not be noticed otherwise.
    """
    with ExitStack() as stack:
        try:
            if policy.model not in _CHECKED:
                _hold_against_forward_mode(policy, directions[0])
                _CHECKED.add(policy.model)
            carrier = stack.enter_context(carrying(policy, directions))
        except UnknownArchitecture:
            stack.enter_context(differentiable_attention(policy))
            yield (lambda b: _forward_mode(policy, directions, b)), "forward-mode AD"
        else:
            yield (lambda b: carrier.hidden(b.input_ids, **b.inputs)), "tangent rules"


def hidden_function(policy: Policy, batch: Batch) -> Callable[[Vector], tuple[Tensor]]:
    """Hidden states of a batch as a function of trained parameters."""

    def f(params: Vector) -> tuple[Tensor]:
        return (_call_hidden(policy, params, batch),)

    return f


def _forward_mode(
    policy: Policy, directions: Sequence[Vector], batch: Batch
) -> Float[Tensor, "M B T C"]:
    trained = policy.trained()
    names = hidden_names(policy, directions[0])
    params = {name: trained[name] for name in names}
    f = hidden_function(policy, batch)
    if not names:
        with torch.no_grad():
            (h,) = f({})
        return torch.stack([h, *(torch.zeros_like(h) for _ in directions)])
    passes = [
        calculus.jvp(f, params, {name: v[name] for name in names}) for v in directions
    ]
    return torch.stack([passes[0].outputs[0], *(p.first[0] for p in passes)])


def hidden_names(policy: Policy, direction: Vector) -> list[str]:
    """Names of the direction that the hidden states depend on: not a head apart."""
    base: Any = policy.base
    apart = (
        base.get_input_embeddings().weight is not base.get_output_embeddings().weight
    )
    return [name for name in direction if not (apart and name == policy.head_name)]


def _call_hidden(policy: Policy, params: Vector, batch: Batch) -> Tensor:
    wrapped = _Hidden(policy)
    named = {f"model.{name}": p for name, p in params.items()}
    hidden: Tensor = functional_call(wrapped, named, (batch,))
    return hidden


class _Hidden(nn.Module):
    """The hidden states as a module, so that parameters keep the model's names."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.model = policy.model
        self.__dict__["policy"] = policy

    def forward(self, batch: Batch) -> Tensor:
        policy: Policy = self.__dict__["policy"]
        return policy.hidden(batch.input_ids, **batch.inputs)


@contextmanager
def differentiable_attention(policy: Policy) -> Iterator[None]:
    """Attention that has forward derivatives, for a while."""
    base: Any = policy.base
    before = base.config._attn_implementation
    base.set_attn_implementation(attention.NAME)
    try:
        yield
    finally:
        base.set_attn_implementation(before)


def _hold_against_forward_mode(policy: Policy, like: Vector) -> None:
    """Compare tangents of a few tokens along a random direction of the same names."""
    ids = torch.arange(8, device=policy.device)[None] % policy.head_weight.shape[0]
    batch = Batch(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        position_ids=torch.arange(8, device=policy.device)[None],
        scored=ids >= 0,
        targets=ids[0],
        rows=np.zeros(1, np.int64),
        columns=np.arange(8),
    )
    generator = torch.Generator().manual_seed(0)
    probe = {
        name: 0.01 * torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x)
        for name, x in like.items()
    }
    with carrying(policy, [probe]) as carrier:
        by_rules = carrier.hidden(batch.input_ids, **batch.inputs)[1]
    with differentiable_attention(policy):
        by_torch = _forward_mode(policy, [probe], batch)[1]
    error = (by_rules - by_torch).norm() / by_torch.norm()
    limits = {torch.float64: 1e-8, torch.float32: 1e-2}
    limit = limits.get(by_torch.dtype, 0.5)
    if not error < limit:
        raise UnknownArchitecture(
            f"expected tangent rules to agree with forward-mode AD within {limit:g}, "
            f"got {error:.2g}; this model computes something that the rules do not know"
        )
