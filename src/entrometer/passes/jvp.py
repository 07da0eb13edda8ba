"""First derivatives of S and H along directions, by rules or in forward mode."""

# Axes: K tokens of all responses, M = 1 + D blocks, B sequences, T tokens, C features.

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.calculus import Vector
from entrometer.calculus.sharded import whole
from entrometer.estimators import Tables, Tangents
from entrometer.passes.batches import TOKEN_BUDGET, Batch, Padding
from entrometer.passes.columns import Columns, own_batches
from entrometer.passes.forward import aligned, head_of
from entrometer.passes.forward_mode import differentiable, forward_mode
from entrometer.passes.head import HeadTangents
from entrometer.policy.architectures import UnknownArchitecture
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
            yield (lambda b: forward_mode(policy, directions, b)), "forward-mode AD"
        else:
            yield (lambda b: hidden(b.input_ids, **b.inputs)), "tangent rules"


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
        by_torch = forward_mode(policy, [probe], batch)[1]
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
