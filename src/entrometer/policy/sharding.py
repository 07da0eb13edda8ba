"""A policy in shards: each process of a group has some rows of every parameter.

Torch's FSDP2 gathers a layer's weights for the time of its call, so rules and hooks
inside the layers see whole, plain tensors, and no derivative ever meets a `DTensor`.
Embedding, last norm and head are gathered for a call of the whole: whatever needs them
runs inside `Policy.within`.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from entrometer.calculus.sharded import Placement, row_range, rows_of
from entrometer.policy.architectures import require_known
from entrometer.policy.policy import Policy

Value = TypeVar("Value")


class Root(nn.Module):
    """The model inside a module whose call runs any function of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, call: Callable[[], Value]) -> Value:
        """Return the function's value; by then FSDP has gathered what layers lack."""
        return call()


def shard(policy: Policy, mesh: DeviceMesh) -> Policy:
    """Return the policy with its parameters divided over a mesh, in place.

    Raises `UnknownArchitecture` for a model without rules: its derivatives would be
    forward-mode AD of torch, which knows no shards.
    """
    require_known(policy.base, "a model in shards")
    root = Root(policy.model)
    layers: Any = policy.body.layers
    for module in (*layers, root):
        # Also the root: parameters outside of calls are then always the shards.
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
        wrapped = cast(FSDPModule, module)
        # Gradients are sums over processes, as over batches, and not means.
        wrapped.set_gradient_divide_factor(1.0)
        wrapped.set_force_sum_reduction_for_comms(True)
    return replace(policy, root=root, mesh=mesh)


def from_weights(policy: Policy, make: Callable[[], Value]) -> Callable[[], Value]:
    """Return a function that makes something of weights: once, or at each call.

    The weights of a policy in shards are there only during the call of their layer.
    """
    return cache(make) if policy.mesh is None else make


def placement(policy: Policy) -> Placement:
    """Return where vectors of the policy are: its device, or its group."""
    return policy.mesh or policy.device


def allocate(policy: Policy, device: torch.device, *, keep: bool) -> None:
    """Move the buffers of a policy in shards to a device.

    Unless the parameters' values are there to `keep`, give them memory for the rows of
    this process.
    """
    assert policy.root is not None, "the policy is in shards"
    places: dict[int, list[tuple[nn.Module, str]]] = defaultdict(list)
    buffers = {}
    for module in policy.root.modules():
        held = {n: b for n, b in module._buffers.items() if b is not None}
        buffers[module] = {name: b.to(device) for name, b in held.items()}
        for name, p in module._parameters.items():
            if p is not None:
                places[id(p)].append((module, name))
    if not keep:
        policy.root.to_empty(device=device)
    # Torch replaces buffers too, and gives a weight that is tied a copy at each place.
    for module, moved in buffers.items():
        module._buffers.update(moved)
    for (first, name), *others in places.values():
        for module, other in others:
            module._parameters[other] = first._parameters[name]


def fill(policy: Policy, read: Callable[[str, slice], Tensor]) -> None:
    """Set this process's rows of every parameter to what `read` has for them."""
    assert policy.mesh is not None, "the policy is in shards"
    frozen = policy.precision.frozen_dtype
    with torch.no_grad():
        for name, p in policy.model.named_parameters():
            rows = read(name, row_range(len(p), policy.mesh))
            # In mixed precision, frozen ones that are held wider are rounded as well.
            rows_of(p).copy_(rows if p.requires_grad else rows.to(frozen))
