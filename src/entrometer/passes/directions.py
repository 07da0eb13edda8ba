"""Directions that a pass can follow: checked, converted and of one set of names."""

from collections.abc import Sequence

import torch
from torch import Tensor

from entrometer.calculus import Vector
from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch, nearest_name
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.moved import require_unmerged
from entrometer.policy.policy import Policy


def aligned(policy: Policy, directions: Sequence[Vector]) -> list[dict[str, Tensor]]:
    """The directions in the policy's precision, each with the names of all.

    A parameter that one direction does not name stays where it is along it.
    """
    if not directions:
        raise InvalidValue(
            "expected at least one direction, got none; pass an update vector"
        )
    require_differentiable(policy)
    trained = policy.trained()
    named = {name for v in directions for name in v}
    for name in sorted(named - set(trained)):
        raise MissingKey(
            f"expected names of trained parameters, got {name!r}, which is unknown or "
            f"frozen.{nearest_name(name, trained)}"
        )
    for v in directions:
        for name, x in v.items():
            if x.shape != trained[name].shape:
                raise ShapeMismatch(
                    f"parameter {name!r}: expected shape {tuple(trained[name].shape)}, "
                    f"got {tuple(x.shape)}; take the direction of this policy"
                )
    return [
        {
            name: v[name].to(p) if name in v else torch.zeros_like(p)
            for name, p in trained.items()
            if name in named
        }
        for v in directions
    ]


def require_differentiable(policy: Policy) -> None:
    """Refuse what has no derivative to take, or another than its own function's."""
    if not policy.trained():
        raise InvalidValue(
            "expected a policy with trained parameters, got none that require a "
            "gradient; load it with its adapter, or call requires_grad_()"
        )
    require_unmerged(policy)
    for name, module in policy.model.named_modules():
        if getattr(module, "lora_variant", None):
            raise UnknownArchitecture(
                f"expected plain low-rank adapters, got a variant (DoRA) at {name}; it "
                "holds its norm constant in derivatives, which are then not those of "
                "the policy: merge_and_unload() it, or train a plain one"
            )
