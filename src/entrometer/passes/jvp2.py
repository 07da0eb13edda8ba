"""The pass along one direction to second order."""

# Axes: K tokens of all responses.

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from entrometer import calculus
from entrometer.calculus import Vector
from entrometer.estimators import Curvatures, Tables, Tangents
from entrometer.passes.batches import TOKEN_BUDGET, batches
from entrometer.passes.directions import aligned
from entrometer.passes.forward import head_of, require_whole_vocabulary
from entrometer.passes.jvp import (
    differentiable_attention,
    hidden_function,
    hidden_names,
)
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class Jvp2Pass(NamedTuple):
    """What the pass writes."""

    tables: Tables
    tangents: Tangents
    curvatures: Curvatures


def jvp2(
    policy: Policy, rollouts: Rollouts, direction: Vector, *, budget: int = TOKEN_BUDGET
) -> Jvp2Pass:
    r"""$\nabla_v$ and $\nabla_v^2$ of S and H of every response token.

    Hidden states by a jvp in a jvp, the head in closed form: some ten forwards. The
    curvature says how far the linear prediction reaches; a part of the rollouts is
    often enough for that.
    """
    require_whole_vocabulary(rollouts)
    head = head_of(policy, rollouts)
    columns = np.empty((6, rollouts.tokens))
    (direction,) = aligned(policy, [direction])
    names = hidden_names(policy, direction)
    trained = policy.trained()
    params = {name: trained[name] for name in names}
    below = {name: direction[name] for name in names}
    head_name = policy.head_name
    dweight = direction.get(head_name) if head_name else None
    with differentiable_attention(policy):
        for batch in batches(
            rollouts,
            device=policy.device,
            vocabulary=policy.vocabulary,
            budget=max(1, budget // 4),
        ):
            f = hidden_function(policy, batch)
            h, dh, ddh = (
                x[batch.scored].to(head.weight) for x in _second_order(f, params, below)
            )
            found = head.jvp2(h, dh, ddh, batch.targets, dweight)
            for column, values in zip(columns, found, strict=True):
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
