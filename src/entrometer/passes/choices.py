"""Which experts a mixture chooses, and how many choices a finite step changes."""

# Axes: N tokens, K experts of a token, L layers with a router.

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from entrometer.calculus import Vector
from entrometer.calculus.sharded import sum_over
from entrometer.passes.batches import TOKEN_BUDGET
from entrometer.passes.columns import own_batches
from entrometer.policy.architectures import ROUTERS, kind
from entrometer.policy.policy import Policy, moved
from entrometer.runs.rollouts import Rollouts


def is_mixture(policy: Policy) -> bool:
    """Return whether a known router chooses experts somewhere in the policy."""
    return any(kind(module) in ROUTERS for module in policy.model.modules())


def changed_choices(
    policy: Policy,
    rollouts: Rollouts,
    direction: Vector,
    eta: float,
    *,
    budget: int = TOKEN_BUDGET,
) -> float:
    r"""Return the share of choices of experts that a step $\eta v$ changes.

    Over scored tokens and layers; a choice is the set of a token's experts. A
    derivative holds choices fixed, so a finite change with any share but 0 is more than
    derivatives of any order say.
    """
    before = _choices(policy, rollouts, budget)
    with moved(policy, direction, eta) as there:
        after = _choices(there, rollouts, budget)
    pairs = zip(before, after, strict=True)
    differs = torch.cat([(a != b).any(-1) for a, b in pairs]).double()
    # Summed, because processes of a group have other batches.
    counts = torch.stack([differs.sum(), differs.new_tensor(differs.numel())])
    changed, all_choices = sum_over(policy.mesh, counts).tolist()
    return float(changed / all_choices)


def _choices(policy: Policy, rollouts: Rollouts, budget: int) -> list[Tensor]:
    """Return the experts of each scored token, in order, by batch and layer."""
    found: list[Tensor] = []
    with torch.no_grad():
        for batch in own_batches(policy, rollouts, budget):
            hidden = partial(policy.hidden, batch.input_ids, **batch.inputs)
            with _recorded(policy) as layers:
                policy.within(hidden)
            found += [chosen[batch.scored] for chosen in layers]
    return found


@contextmanager
def _recorded(policy: Policy) -> Iterator[list[Tensor]]:
    layers: list[Tensor] = []

    def record(_: Any, __: Any, routed: tuple[Tensor, Tensor, Tensor]) -> None:
        layers.append(routed[2].sort(-1).values)

    handles = [
        module.register_forward_hook(record)
        for module in policy.model.modules()
        if kind(module) in ROUTERS
    ]
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()
