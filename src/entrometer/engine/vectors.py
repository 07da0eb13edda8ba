"""Files of named tensors, in shards if they are large.

Vectors are written and read tensor by tensor, so that one as large as a model is never
in memory twice, and never sent from one process to another.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from entrometer.runs import DamagedFile, atomic_write

Device = torch.device | str

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
    size = 0
    for name, tensor in tensors:
        if held and size + tensor.nbytes > shard_bytes:
            shards.append(_write(_shard(path, len(shards)), held, about))
            held, size = {}, 0
        # To the CPU: a GPU need not hold tensors that wait for their file.
        held[name] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
    # The file under the name is the last: if it exists, so do all shards.
    if shards:
        shards.append(_write(_shard(path, len(shards)), held, about))
        held, about[_SHARDS] = {}, json.dumps(shards)
    _write(path, held, about)


class VectorFile:
    """Tensors of a file, read one at a time onto one device."""

    def __init__(
        self, files: Mapping[str, Any], about: Mapping[str, str], device: Device
    ) -> None:
        self._files, self._device, self.about = files, device, about

    def names(self) -> list[str]:
        """Return the names of the tensors, shard by shard and sorted in each."""
        return list(self._files)

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.to(self._device)

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
def open_vectors(path: Path, kind: str, device: Device) -> Iterator[VectorFile]:
    """Open what `write_vectors` wrote, to read tensors onto a device.

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
            files = {
                name: part
                for part in (head, *parts)
                for name in part.keys()  # noqa: SIM118 (not a mapping)
            }
            yield VectorFile(files, about, device)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected {kind} in {path}, got a file that is damaged or of another kind "
            f"({error}); delete it, then resume with --resume"
        ) from error


def remove_vectors(path: Path) -> None:
    """Delete what `write_vectors` wrote, also if it was stopped."""
    # The head first: without it, shards that are left over are not a result.
    path.unlink(missing_ok=True)
    for shard in vector_shards(path):
        shard.unlink(missing_ok=True)


def vector_shards(path: Path) -> list[Path]:
    """Return the shards of a file of vectors in their order; empty if it has none."""
    shards = (_shard(path, number) for number in count())
    return list(takewhile(Path.exists, shards))


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


def _write(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    with atomic_write(path) as file:
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
    return path.name
