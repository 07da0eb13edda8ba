"""Whole tensors from the pieces that the processes of a training held."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard

from entrometer.policy.sources import UnreadableSource


def joined(name: str, pieces: Sequence[Tensor | None]) -> Tensor:
    """Join what each process, in order, holds of a tensor.

    A DTensor says how it was cut. Plain pieces were cut from the flattened tensor, one
    after another; a process may hold none of it.
    """
    held = [piece for piece in pieces if piece is not None]
    first = held[0]
    if not isinstance(first, DTensor):
        return first if first.dim() == 0 else torch.cat(held)
    cut = [place for place in first.placements if place != Replicate()]
    if not cut:
        return first.to_local()
    if len(cut) > 1 or type(cut[0]) is not Shard:
        raise UnreadableSource(
            f"{name}: expected a tensor cut along one dimension by one dimension of "
            f"the mesh, got {first.placements}. Save it with plain FSDP, or merge it "
            "with the framework's own tool."
        )
    once = [pieces[rank] for rank in cut_ranks(first)]
    whole = torch.cat(
        [piece.to_local() for piece in once if isinstance(piece, DTensor)],
        dim=cut[0].dim,
    )
    if whole.shape != first.shape:
        raise UnreadableSource(
            f"{name}: expected pieces of a tensor of shape {tuple(first.shape)}, got "
            f"{tuple(whole.shape)} from them. The files are of different checkpoints; "
            "copy the whole directory again."
        )
    return whole


def cut_ranks(tensor: DTensor) -> list[int]:
    """Processes that hold the pieces of a tensor once: the first of its replicas."""
    ranks = tensor.device_mesh.mesh
    for place in reversed(range(ranks.dim())):
        if tensor.placements[place] == Replicate():
            ranks = ranks.select(place, 0)
    found: list[int] = ranks.flatten().tolist()
    return found


def split(flat: Tensor, shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """Tensors by name from one that holds them in a row, and padding after them."""
    numels = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
    parts = flat[: sum(numels.values())].split(list(numels.values()))
    return {
        name: part.reshape(tuple(shapes[name]))
        for name, part in zip(numels, parts, strict=True)
    }
