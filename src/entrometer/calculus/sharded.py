"""Vectors of a model that a group of processes holds in shards.

Each process has some rows of every tensor, the first axis divided as `torch.chunk`
divides it: torch's `DTensor` with FSDP2's one placement. Sums, multiples and products
by element need no communication. What does is here, and takes plain tensors as they
are, so that callers need not ask which they have.
"""

# Axes: N rows of a whole tensor.

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from entrometer.errors import InvalidValue

Value = TypeVar("Value")

Placement = torch.device | str | DeviceMesh
"""A device, or the group of processes that share a vector by rows."""


def mesh_of_group(shards: int, device: str) -> DeviceMesh:
    """Return the mesh of this process's group; raise unless it has `shards` members."""
    size = dist.get_world_size() if dist.is_initialized() else 1
    if size != shards:
        raise InvalidValue(
            f"expected a group of {shards} processes for a model in {shards} shards, "
            f"got {size}; start them with `torchrun --nproc-per-node {shards}`, or use "
            "--engine ray"
        )
    return _mesh(size, device.partition(":")[0])


@cache
def _mesh(size: int, kind: str) -> DeviceMesh:
    return init_device_mesh(kind, (size,))


def mesh_of(x: Tensor) -> DeviceMesh | None:
    """Return the mesh that a tensor is divided over, or None."""
    return x.device_mesh if isinstance(x, DTensor) else None


def rows_of(x: Tensor) -> Tensor:
    """Return the rows that this process has; all of a plain tensor."""
    return x.to_local() if isinstance(x, DTensor) else x


def whole(x: Tensor) -> Tensor:
    """Return all rows, gathered from all processes: all of them have to call this."""
    return x.full_tensor() if isinstance(x, DTensor) else x


def row_range(rows: int, mesh: DeviceMesh, rank: int | None = None) -> slice:
    """Return which of a tensor's rows a process has, this one by default."""
    rank = mesh.get_local_rank() if rank is None else rank
    size = -(-rows // mesh.size())
    return slice(min(rank * size, rows), min((rank + 1) * size, rows))


def from_rows(rows: Tensor, shape: Sequence[int], mesh: DeviceMesh) -> Tensor:
    """Return the tensor of a shape of which this process has some rows."""
    # Of a contiguous tensor, whatever the memory of the rows looks like.
    stride = torch.empty(tuple(shape), device="meta").stride()
    return DTensor.from_local(
        rows.contiguous(),
        mesh,
        [Shard(0)],
        run_check=False,
        shape=torch.Size(shape),
        stride=stride,
    )


def like(rows: Tensor, model: Tensor) -> Tensor:
    """Return rows as the tensor that `model` is: divided if that is divided."""
    mesh = mesh_of(model)
    return rows if mesh is None else from_rows(rows, model.shape, mesh)


def divided(x: Tensor, mesh: DeviceMesh | None) -> Tensor:
    """Return a whole tensor, which every process has, divided over a mesh."""
    if mesh is None:
        return x
    return from_rows(x[row_range(len(x), mesh)].clone(), x.shape, mesh)


def sum_over(mesh: DeviceMesh | None, x: Tensor) -> Tensor:
    """Return the sum of each process's plain tensor; the tensor itself without mesh."""
    if mesh is not None:
        x = x.contiguous()
        dist.all_reduce(x, group=mesh.get_group())
    return x


def summed_like(x: Tensor, model: Tensor) -> Tensor:
    """Return the sum of each process's whole tensor, divided as `model` is."""
    return divided(sum_over(mesh_of(model), x), mesh_of(model))


def same(mesh: DeviceMesh | None, x: Tensor) -> Tensor:
    """Return the leader's tensor, of the same shape in every process."""
    if mesh is not None:
        group = mesh.get_group()
        dist.broadcast(x, src=dist.get_global_rank(group, 0), group=group)
    return x


def of_leader(mesh: DeviceMesh | None, value: Value) -> Value:
    """Return the value that the leader of the group has."""
    if mesh is None:
        return value
    held: list[Any] = [value]
    group = mesh.get_group()
    dist.broadcast_object_list(held, src=dist.get_global_rank(group, 0), group=group)
    return cast(Value, held[0])


def barrier(mesh: DeviceMesh | None) -> None:
    """Wait until all processes of a group are here."""
    if mesh is not None:
        dist.barrier(group=mesh.get_group())


def local_device(placement: Placement) -> torch.device:
    """Return the device of a placement that this process computes on."""
    if not isinstance(placement, DeviceMesh):
        return torch.device(placement)
    # Each process of a group has chosen its own.
    if placement.device_type == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(placement.device_type)


def is_leader(mesh: DeviceMesh | None) -> bool:
    """Return whether this process speaks for its group."""
    return mesh is None or mesh.get_local_rank() == 0
