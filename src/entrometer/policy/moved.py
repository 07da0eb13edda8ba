"""A policy at other parameters, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from entrometer.calculus import Vector
from entrometer.calculus.vectors import check_layout
from entrometer.errors import InvalidValue
from entrometer.policy.policy import Policy


@contextmanager
def moved(policy: Policy, direction: Vector, eta: float) -> Iterator[Policy]:
    r"""The policy at $\theta + \eta v$; back at $\theta$, to the bit, afterwards.

    `direction` names trained parameters, all of them or some; the others stay.
    """
    require_unmerged(policy)
    trained = policy.trained()
    here = {name: trained[name] for name in direction if name in trained}
    check_layout(here, direction)
    before = {name: p.clone() for name, p in here.items()}
    try:
        with torch.no_grad():
            for name, p in here.items():
                p.add_(direction[name].to(p), alpha=eta)
        yield policy
    finally:
        with torch.no_grad():
            for name, p in here.items():
                p.copy_(before[name])


def require_unmerged(policy: Policy) -> None:
    """Refuse merged adapters: moving them, or differentiating, would do nothing."""
    for name, module in policy.model.named_modules():
        if hasattr(module, "base_layer") and getattr(module, "merged", False):
            raise InvalidValue(
                f"expected adapters beside their layers, got one merged at {name}, "
                "where it does nothing; call model.unmerge_adapter()"
            )
