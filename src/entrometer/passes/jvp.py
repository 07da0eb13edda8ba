"""Passes along directions: S, H and their derivatives, in forward mode."""

# Axes: K tokens of all responses, M = 1 + D blocks, B sequences, T tokens, C features.

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from entrometer import calculus
from entrometer.calculus import Vector
from entrometer.calculus.sharded import whole
from entrometer.estimators import Curvatures, Tables, Tangents
from entrometer.passes.batches import TOKEN_BUDGET, Batch, Padding
from entrometer.passes.columns import Columns, own_batches, policy_batches
from entrometer.passes.forward import aligned, head_of
from entrometer.passes.head import HeadTangents
from entrometer.policy.adapted_parameters import functional_wrappers
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.attention import ATTENTION
from entrometer.policy.mixtures import DIFFERENTIABLE
from entrometer.policy.policy import Policy
from entrometer.policy.products import narrowed_products
from entrometer.policy.tangents import tangent_rules
from entrometer.runs.rollouts import Rollouts

Hidden = Callable[[Batch], Float[Tensor, "M B T C"]]
"""Hidden states of a batch in block 0, their tangents in the others."""


class JvpPass(NamedTuple):
    """S and H of each response token, and their derivatives along directions."""

    tables: Tables
    tangents: list[Tangents]
    """One entry per direction."""

    by: str
    """`tangent rules`, or `forward-mode AD` without rules: several times slower."""


def jvp(
    policy: Policy,
    rollouts: Rollouts,
    directions: Sequence[Vector],
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> JvpPass:
    r"""Return $\nabla_vS_k$ and $\nabla_vH_k$ of each response token and direction.

    Directions share the primal and every product with the weights. A known architecture
    uses explicit tangent rules: about two forwards for low-rank adapters, three for all
    parameters. Anything else uses forward-mode AD, and the result says which.
    """
    make_head = head_of(policy, rollouts)
    directions = aligned(policy, directions)
    D = len(directions)
    columns = Columns(policy, rollouts, 2 + 2 * D)
    head_name = policy.head_name

    def head_tangent(v: Vector, weight: Tensor) -> Tensor | None:
        tangent = v.get(head_name) if head_name else None
        # The head computes in float32 at least.
        return None if tangent is None else whole(tangent).to(weight)

    def derivatives(batch: Batch) -> HeadTangents:
        head = make_head()
        h = batch.at_scored(hidden(batch)).to(head.weight)
        dweight = [head_tangent(v, head.weight) for v in directions]
        return head.jvp(h[0], h[1:], batch.targets, dweight)

    # Each direction adds a block of activations as large as the primal's.
    budget = max(1, budget // (1 + D))
    with _tangent_hidden(policy, directions) as (hidden, by):
        for batch in own_batches(policy, rollouts, budget, padding):
            found = policy.within(partial(derivatives, batch))
            columns.fill(batch, [found.S, found.H, *found.dS, *found.dH])
    S, H, *rest = columns.filled()
    pairs = zip(rest[:D], rest[D:], strict=True)
    return JvpPass(Tables(S=S, H=H), [Tangents(*pair) for pair in pairs], by)


class Jvp2Pass(NamedTuple):
    """S and H of each response token, with first and second derivatives."""

    tables: Tables
    tangents: Tangents
    curvatures: Curvatures


def jvp2(
    policy: Policy,
    rollouts: Rollouts,
    direction: Vector,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding | None = None,
) -> Jvp2Pass:
    r"""Return $\nabla_v$ and $\nabla_v^2$ of S and H of each response token.

    Hidden states by a jvp in a jvp, the head in closed form: some ten forwards. The
    curvature tells how far the linear prediction reaches; a part of the rollouts is
    often enough for that.
    """
    if policy.mesh is not None:
        raise UnknownArchitecture(
            "expected a policy that is whole in this process for second derivatives, "
            "which are forward-mode AD of torch, got one in shards; leave them out "
            "(--curvature-prompts 0)"
        )
    head = head_of(policy, rollouts)()
    columns = np.empty((6, rollouts.tokens))
    (direction,) = aligned(policy, [direction])
    names = _hidden_names(policy, direction)
    trained = policy.trained()
    params = {name: trained[name] for name in names}
    below_head = {name: direction[name] for name in names}
    head_name = policy.head_name
    dweight = direction.get(head_name) if head_name else None
    if dweight is not None:
        dweight = dweight.to(head.weight)
    # A jvp in a jvp holds four tensors for each one of a forward.
    budget = max(1, budget // 4)
    with differentiable(policy):
        for batch in policy_batches(policy, rollouts, budget, padding):
            f = hidden_function(policy, batch)
            h, dh, ddh = (
                batch.at_scored(x).to(head.weight)
                for x in _second_order(f, params, below_head)
            )
            derivatives = head.jvp2(h, dh, ddh, batch.targets, dweight)
            for column, values in zip(columns, derivatives, strict=True):
                column[batch.columns] = values.cpu()
    S, H, dS, dH, ddS, ddH = columns
    return Jvp2Pass(
        Tables(S=S, H=H), Tangents(dS=dS, dH=dH), Curvatures(ddS=ddS, ddH=ddH)
    )


def _second_order(
    f: Callable[[Vector], tuple[Tensor]], params: Vector, direction: Vector
) -> tuple[Tensor, Tensor, Tensor]:
    if not params:
        with torch.no_grad():
            (h,) = f({})
        return h, torch.zeros_like(h), torch.zeros_like(h)
    states = calculus.jvp2(f, params, direction)
    return states.outputs[0], states.first[0], states.second[0]


# Parameters whose rules agreed with forward-mode AD, by model. Weak, so that no model
# is kept alive.
_CHECKED: WeakKeyDictionary[nn.Module, set[str]] = WeakKeyDictionary()


@contextmanager
def _tangent_hidden(
    policy: Policy, directions: Sequence[Vector]
) -> Iterator[tuple[Hidden, str]]:
    """Yield the function of hidden states with tangents, and the name of its method."""
    with ExitStack() as stack:
        try:
            # Nothing else would notice a rule that is missing.
            checked = _CHECKED.setdefault(policy.model, set())
            # Forward-mode AD knows no shards: there the name alone decides.
            if policy.mesh is None and not directions[0].keys() <= checked:
                _compare_with_forward_mode(policy, directions[0])
                checked.update(directions[0])
            hidden = stack.enter_context(tangent_rules(policy, directions)).hidden
            # Not in the comparison above, which is of rules and not of rounding.
            stack.enter_context(narrowed_products())
        except UnknownArchitecture:
            if policy.mesh is not None:
                raise
            stack.enter_context(differentiable(policy))
            yield (lambda b: _forward_mode(policy, directions, b)), "forward-mode AD"
        else:
            yield (lambda b: hidden(b.input_ids, **b.inputs)), "tangent rules"


def _forward_mode(
    policy: Policy, directions: Sequence[Vector], batch: Batch
) -> Float[Tensor, "M B T C"]:
    trained = policy.trained()
    names = _hidden_names(policy, directions[0])
    params = {name: trained[name] for name in names}
    f = hidden_function(policy, batch)
    # Only the head moves: hidden states have no tangent, which `calculus.jvp` rejects.
    if not names:
        with torch.no_grad():
            (h,) = f({})
        return torch.stack([h, *(torch.zeros_like(h) for _ in directions)])
    passes = [
        calculus.jvp(f, params, {name: v[name] for name in names}) for v in directions
    ]
    return torch.stack([passes[0].outputs[0], *(p.first[0] for p in passes)])


def _hidden_names(policy: Policy, direction: Vector) -> list[str]:
    """Return the names of the direction that the hidden states depend on."""
    # A head that is tied to the embedding moves the hidden states, an untied one not.
    base: Any = policy.base
    embedding, head = base.get_input_embeddings(), base.get_output_embeddings()
    untied = embedding.weight is not head.weight
    return [name for name in direction if not (untied and name == policy.head_name)]


def hidden_function(policy: Policy, batch: Batch) -> Callable[[Vector], tuple[Tensor]]:
    """Return a function from trained parameters to the hidden states of a batch."""
    wrapped = _Hidden(policy)

    def f(params: Vector) -> tuple[Tensor]:
        named = {f"model.{name}": p for name, p in params.items()}
        return (functional_call(wrapped, named, (batch,)),)

    return f


class _Hidden(nn.Module):
    """Module that returns hidden states; its parameters keep the model's names."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.model = policy.model
        self.policy = policy

    def forward(self, batch: Batch) -> Tensor:
        return self.policy.hidden(batch.input_ids, **batch.inputs)


@contextmanager
def differentiable(policy: Policy) -> Iterator[None]:
    """Use attention and experts with forward derivatives inside this context."""
    # The fused kernels of transformers' defaults have none.
    base: Any = policy.base
    attention = base.config._attn_implementation
    experts = base.config._experts_implementation
    base.set_attn_implementation(ATTENTION)
    base.set_experts_implementation(DIFFERENTIABLE)
    try:
        with functional_wrappers(policy.model):
            yield
    finally:
        base.set_attn_implementation(attention)
        base.set_experts_implementation(experts)


def _compare_with_forward_mode(policy: Policy, like: Vector) -> None:
    """Raise unless tangents of eight tokens along a random direction agree."""
    ids = torch.arange(8, device=policy.device)[None] % policy.head_weight.shape[0]
    batch = Batch(
        input_ids=ids,
        attention_mask=None,
        position_ids=torch.arange(8, device=policy.device)[None],
        scored=torch.arange(8, device=policy.device),
        targets=ids[0],
        rows=np.zeros(1, np.int64),
        columns=np.arange(8),
    )
    # Random, because the caller's direction may be 0 where a rule is wrong.
    generator = torch.Generator().manual_seed(0)
    probe = {
        name: 0.01 * torch.randn(x.shape, generator=generator, dtype=x.dtype).to(x)
        for name, x in like.items()
    }
    with tangent_rules(policy, [probe]) as propagator:
        by_rules = propagator.hidden(batch.input_ids, **batch.inputs)[1]
    with differentiable(policy):
        by_torch = _forward_mode(policy, [probe], batch)[1]
    error, size = (by_rules - by_torch).norm(), by_torch.norm()
    # Far above the rounding of a deep model, far below the error of a missing rule.
    limits = {torch.float64: 1e-8, torch.float32: 1e-2}
    limit = limits.get(by_torch.dtype, 0.5)
    # Where the head alone is trained, hidden states have tangent 0.
    if not error <= limit * size:
        raise UnknownArchitecture(
            f"expected tangent rules to agree with forward-mode AD within {limit:g}, "
            f"got {error / size:.2g}; this model computes something that the rules do "
            "not know"
        )
