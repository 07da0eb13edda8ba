"""Tensors in pieces, which lie in the files of several processes.

A piece is a view of a mapped file. Its values are read when they are written elsewhere,
one tensor after another, and the kernel may drop them again: no process's file, let
alone all of them, has to fit in memory.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Size, Tensor, nn

# Names that safetensors gives to types, in the order in which it stores them.
_DTYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_PLACE = {dtype: place for place, dtype in enumerate(_DTYPES)}

# Storages in a file of torch begin at multiples of this number of bytes.
_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class ShardedTensor:
    """A tensor as the pieces that its processes saved."""

    pieces: tuple[Tensor, ...]  #: In order of rank.
    shape: Size  #: Shape of the whole tensor.
    #: Dimension that the pieces are joined along. Pieces of a flattened tensor have 0.
    dim: int = 0

    def __post_init__(self) -> None:
        """Raise for pieces that are no plain tensors, or not the whole one."""
        for piece in self.pieces:
            # No subclass: a DTensor that stands alone cannot be read.
            if type(piece) not in (Tensor, nn.Parameter):
                raise TypeError(f"expected a tensor, got a {type(piece).__name__}")
            plain = (piece.layout, piece.device.type) == (torch.strided, "cpu")
            if not plain or piece.dtype not in _DTYPES:
                raise TypeError(f"expected a tensor of numbers, got {piece.dtype}")
        got = sum(piece.numel() for piece in self.pieces)
        if got != self.numel():
            raise ValueError(f"expected {self.numel()} values in pieces, got {got}")

    @property
    def dtype(self) -> torch.dtype:
        """Type of the whole tensor: the common one of its pieces, as in `torch.cat`."""
        dtypes = [piece.dtype for piece in self.pieces]
        return reduce(torch.promote_types, dtypes or [torch.float32])

    @property
    def nbytes(self) -> int:
        """Size of the whole tensor in bytes."""
        return self.numel() * self.dtype.itemsize

    def numel(self) -> int:
        """Return the number of values of the whole tensor."""
        return self.shape.numel()

    def chunks(self) -> Iterator[Tensor]:
        """Yield all values in order, as flat tensors: views, if they lie like that."""
        parts: Iterable[Tensor] = self.pieces
        if self.dim != 0:
            # Pieces interleave, so this tensor is joined: the only case that copies.
            parts = [torch.cat(self.pieces, self.dim)]
        for part in parts:
            yield part.detach().to(self.dtype).contiguous().flatten()

    def write(self, file: BinaryIO) -> None:
        """Write the values of the whole tensor, in row-major order."""
        for chunk in self.chunks():
            # As bytes: NumPy has no bfloat16.
            file.write(chunk.view(torch.uint8).numpy().data)


class FlatPieces:
    """Flat tensors that follow one another, as one sequence of values."""

    def __init__(self, pieces: Sequence[Tensor]) -> None:
        """Set the pieces, all of one dimension, in their order."""
        if any(piece.dim() != 1 for piece in pieces):
            raise ValueError("expected flat tensors, got one of several dimensions")
        self._pieces = pieces
        self._begins = [0, *accumulate(piece.numel() for piece in pieces)]

    def numel(self) -> int:
        """Return the number of values in all pieces."""
        return self._begins[-1]

    def part(self, begin: int, end: int) -> list[Tensor]:
        """Return views of the values from `begin` to `end`, as far as there are any."""
        views = []
        place = max(0, bisect_right(self._begins, begin) - 1)
        while place < len(self._pieces) and self._begins[place] < end:
            start = self._begins[place]
            view = self._pieces[place][max(0, begin - start) : end - start]
            if view.numel():
                views.append(view)
            place += 1
        return views


def write_safetensors(path: Path, tensors: Mapping[str, ShardedTensor]) -> None:
    """Write a file of safetensors, with the same bytes as `save_file` of safetensors.

    The header has the place of each tensor and comes first; then the values follow,
    tensor by tensor, so memory holds one tensor at most.
    """
    names = sorted(tensors, key=lambda name: (_PLACE[tensors[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        header[name] = {
            "dtype": _DTYPES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            tensors[name].write(file)


def mapped(path: Path, tensors: Sequence[ShardedTensor]) -> list[Tensor]:
    """Write tensors one after another to a file; return them as views of that file.

    `torch.save` takes whole tensors, all at once: these it reads from the file while it
    writes. Each has a storage of its own. The file must outlive them.
    """
    begins = []
    with path.open("xb") as file:
        for tensor in tensors:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            begins.append(file.tell())
            tensor.write(file)
        # A mapping cannot be empty.
        file.write(bytes(1))
    # "c": pages are the file's until somebody writes to them, which nobody does.
    content = np.memmap(path, np.uint8, mode="c")
    return [
        torch.from_numpy(content[begin : begin + tensor.nbytes])
        .view(tensor.dtype)
        .reshape(tensor.shape)
        for begin, tensor in zip(begins, tensors, strict=True)
    ]
