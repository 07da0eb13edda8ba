"""Second derivatives of S and H along a direction, in forward mode."""

# Axes: K tokens of all responses.

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer import calculus
from entrometer.calculus import Vector
from entrometer.estimators import Curvatures, Tables, Tangents
from entrometer.passes.batches import TOKEN_BUDGET, Padding
from entrometer.passes.columns import policy_batches
from entrometer.passes.forward import aligned, head_of
from entrometer.passes.forward_mode import (
    differentiable,
    hidden_function,
    hidden_names,
)
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


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
    names = hidden_names(policy, direction)
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
