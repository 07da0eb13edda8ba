"""Files of named tensors, in shards if they are large.

Vectors are written and read tensor by tensor, so that one as large as a model is never
in memory twice, and never sent from one process to another. Each process of a group
writes the rows that it has; any number of processes reads them.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from entrometer.calculus.sharded import (
    Placement,
    barrier,
    from_rows,
    is_leader,
    local_device,
    mesh_of,
    row_range,
    rows_of,
)
from entrometer.runs import DamagedFile, atomic_write

SHARD_BYTES = 4 << 30
"""Most bytes per file."""

_ABOUT = "about"
_SHARDS = "shards"


def write_vectors(
    path: Path,
    tensors: Iterable[tuple[str, Tensor]],
    *,
    about: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write tensors; the file exists only once all of them are written.

    Args:
        path: The file; shards get names derived from it.
        tensors: Names with tensors, held only until their shard is written.
        about: Further values to store.
        shard_bytes: Most bytes per file.
    """
    about = dict(about or {})
    shards: list[str] = []
    held: dict[str, Tensor] = {}
    size, mesh = 0, None
    for name, tensor in tensors:
        mesh = mesh_of(tensor)
        # Of the first process, which has the most rows: all end a shard at once.
        here = tensor.nbytes if mesh is None else -(-tensor.nbytes // mesh.size())
        if held and size + here > shard_bytes:
            shards += _write_together(path, len(shards), held, about, mesh)
            held, size = {}, 0
        # To the CPU: a GPU need not hold tensors that wait for their file.
        held[name] = rows_of(tensor.detach()).cpu().contiguous()
        size += here
    # The file under the name is the last: if it exists, so do all shards.
    if shards or mesh is not None:
        shards += _write_together(path, len(shards), held, about, mesh)
        held, about[_SHARDS] = {}, json.dumps(shards)
    if is_leader(mesh):
        _write(path, held, about)
    # Whoever reads it next in this group must find it.
    barrier(mesh)


def _write_together(
    path: Path,
    first: int,
    tensors: dict[str, Tensor],
    about: dict[str, str],
    mesh: DeviceMesh | None,
) -> list[str]:
    """Write the next shard of every process; return the names of all of them."""
    rank, size = (0, 1) if mesh is None else (mesh.get_local_rank(), mesh.size())
    names = [_shard(path, first + r).name for r in range(size)]
    _write(path.with_name(names[rank]), tensors, about, own=mesh is not None)
    barrier(mesh)
    return names


class VectorFile:
    """Tensors of a file, read one at a time onto a device, or by rows for a group."""

    def __init__(
        self,
        files: Mapping[str, Sequence[Any]],
        about: Mapping[str, str],
        placement: Placement,
    ) -> None:
        self._files, self.about = files, about
        self._mesh = placement if isinstance(placement, DeviceMesh) else None
        self._device = local_device(placement)

    def names(self) -> list[str]:
        """Return the names of the tensors, shard by shard and sorted in each."""
        return list(self._files)

    def __getitem__(self, name: str) -> Tensor:
        files = self._files[name]
        if self._mesh is None:
            found = [file.get_tensor(name) for file in files]
            whole = found[0] if len(found) == 1 else torch.cat(found)
            return whole.to(self._device)
        slices = [file.get_slice(name) for file in files]
        shapes = [part.get_shape() for part in slices]
        total = sum(shape[0] for shape in shapes)
        wanted, first = row_range(total, self._mesh), 0
        mine = []
        for part, (length, *_) in zip(slices, shapes, strict=True):
            begin, end = (
                min(max(x - first, 0), length) for x in (wanted.start, wanted.stop)
            )
            mine.append(part[begin:end])
            first += length
        rows = torch.cat(mine).to(self._device)
        return from_rows(rows, (total, *shapes[0][1:]), self._mesh)

    def part(self, part: str) -> dict[str, Tensor]:
        """Return one of the vectors that `parts` named; the others are not read."""
        prefix = f"{part}/"
        names = [name for name in self._files if name.startswith(prefix)]
        if not names:
            raise KeyError(part)
        return {name.removeprefix(prefix): self[name] for name in names}


def parts(**vectors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor of several vectors, named `VECTOR/TENSOR`, for one file."""
    for part, vector in vectors.items():
        for name, x in vector.items():
            yield f"{part}/{name}", x


@contextmanager
def open_vectors(path: Path, kind: str, placement: Placement) -> Iterator[VectorFile]:
    """Open what `write_vectors` wrote, to read tensors onto a device or for a group.

    `kind` says what is expected in the file, for the error message.
    """
    try:
        with ExitStack() as stack:
            head: Any = stack.enter_context(safe_open(path, "pt"))
            about = json.loads((head.metadata() or {})[_ABOUT])
            # `Path(name).name`: a file from elsewhere must not name other directories.
            shards = json.loads(about.pop(_SHARDS, "[]"))
            parts = [
                stack.enter_context(_open_shard(path.with_name(Path(name).name), about))
                for name in shards
            ]
            files: dict[str, list[Any]] = {}
            # Shards that have the same names have rows of each in this order.
            for part in (head, *parts):
                for name in part.keys():  # noqa: SIM118 (not a mapping)
                    files.setdefault(name, []).append(part)
            yield VectorFile(files, about, placement)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected {kind} in {path}, got a file that is damaged or of another kind "
            f"({error}); delete it, then resume with --resume"
        ) from error


def remove_vectors(path: Path) -> None:
    """Delete what `write_vectors` wrote, also if it was stopped."""
    # The head first: without it, shards that are left over are not a result.
    for file in result_files(path):
        file.unlink(missing_ok=True)


def result_files(path: Path) -> list[Path]:
    """Return the files of a result: its own and, of vectors, the shards in order."""
    shards = (_shard(path, number) for number in count())
    return [path, *takewhile(Path.exists, shards)]


def _shard(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number:05d}{path.suffix}")


@contextmanager
def _open_shard(path: Path, about: dict[str, str]) -> Iterator[Any]:
    try:
        opened: Any = safe_open(path, "pt")
    except FileNotFoundError as error:
        raise ValueError(f"{path.name} is missing") from error
    with opened as shard:
        # A shard that another writer replaced meanwhile must not be mixed in.
        if json.loads((shard.metadata() or {})[_ABOUT]) != about:
            raise ValueError(f"{path.name} belongs to another file")
        yield shard


def _write(
    path: Path,
    tensors: dict[str, Tensor],
    about: dict[str, str],
    *,
    own: bool = False,
) -> None:
    with atomic_write(path, own=own) as file:
        try:
            # One entry: safetensors writes several in random order, so that equal
            # content would have different hashes.
            text = json.dumps(about, sort_keys=True)
            save_file(tensors, file.name, metadata={_ABOUT: text})
        except SafetensorError as error:
            # The system's error code is only in the message; `store_trouble` needs it.
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
