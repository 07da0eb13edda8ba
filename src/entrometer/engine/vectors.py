"""Files of tensors by name; over a size, several files behind one.

The file under the name comes last and is whole or absent, so that a reader needs to
know no more than the name. Each of several says what it is about, so that one that was
written over meanwhile is not taken for another. Writers and readers go tensor by
tensor: what is as large as a model need not be in memory twice, nor travel from one
process to another.
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
"""Of one file."""

_ABOUT = "about"
_SHARDS = "shards"


def write_vectors(
    path: Path,
    tensors: Iterable[tuple[str, Tensor]],
    *,
    about: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write tensors as they come, whole or not at all.

    Args:
        path: The file that is there when all of them are.
        tensors: Names with tensors; not kept longer than until a file is full.
        about: What else to remember.
        shard_bytes: Where a file is full.
    """
    about = dict(about or {})
    shards: list[str] = []
    held: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors:
        if held and size + tensor.nbytes > shard_bytes:
            shards.append(_write_shard(path, len(shards), held, about))
            held, size = {}, 0
        # A GPU need not hold what waits for its file.
        held[name] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
    if shards:
        shards.append(_write_shard(path, len(shards), held, about))
        held, about[_SHARDS] = {}, json.dumps(shards)
    _write(path, held, about)


class VectorFile:
    """Tensors of a file, read one at a time onto one device."""

    def __init__(
        self, files: Mapping[str, Any], about: Mapping[str, str], device: Device
    ) -> None:
        self._files = files
        self._device = device
        self.about = about

    def names(self) -> list[str]:
        """In the order of the files, and by name in each."""
        return list(self._files)

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.to(self._device)

    def part(self, part: str) -> dict[str, Tensor]:
        """One of the vectors that `parts` named; the others are not read."""
        prefix = f"{part}/"
        names = [name for name in self._files if name.startswith(prefix)]
        if not names:
            raise KeyError(part)
        return {name.removeprefix(prefix): self[name] for name in names}


def parts(**vectors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Several vectors in one file, under the name of each."""
    for part, vector in vectors.items():
        for name, x in vector.items():
            yield f"{part}/{name}", x


@contextmanager
def open_vectors(path: Path, kind: str, device: Device) -> Iterator[VectorFile]:
    """Open what `write_vectors` wrote.

    Args:
        path: The file.
        kind: What is expected in it, for the error.
        device: Where tensors are put: that of the policy they will meet.
    """
    try:
        with ExitStack() as stack:
            head: Any = stack.enter_context(safe_open(path, "pt"))
            about = json.loads((head.metadata() or {})[_ABOUT])
            shards = json.loads(about.pop(_SHARDS, "[]"))
            parts = [
                stack.enter_context(_open_shard(path.with_name(Path(name).name), about))
                for name in shards
            ]
            files = {
                name: part
                for part in (head, *parts)
                for name in part.keys()  # noqa: SIM118 (it is no mapping)
            }
            yield VectorFile(files, about, device)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(
            f"expected {kind} in {path}, got a file that is damaged or of something "
            f"else ({error}); delete it and go on"
        ) from error


def remove_vectors(path: Path) -> None:
    """Delete what `write_vectors` wrote, or began to write."""
    path.unlink(missing_ok=True)
    for number in count():
        try:
            _shard(path, number).unlink()
        except FileNotFoundError:
            return


def vector_shards(path: Path) -> list[Path]:
    """The files behind one of vectors, in their order; none if it has all itself."""
    shards = (_shard(path, number) for number in count())
    return list(takewhile(Path.exists, shards))


def _shard(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number:05d}{path.suffix}")


def _write_shard(
    path: Path, number: int, tensors: dict[str, Tensor], about: dict[str, str]
) -> str:
    shard = _shard(path, number)
    _write(shard, tensors, about)
    return shard.name


@contextmanager
def _open_shard(path: Path, about: dict[str, str]) -> Iterator[Any]:
    try:
        opened: Any = safe_open(path, "pt")
    except FileNotFoundError as error:
        raise ValueError(f"{path.name} is not there") from error
    with opened as shard:
        if json.loads((shard.metadata() or {})[_ABOUT]) != about:
            raise ValueError(f"{path.name} is of another")
        yield shard


def _write(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    with atomic_write(path) as file:
        try:
            # One entry: the order of several is another each time.
            text = json.dumps(about, sort_keys=True)
            save_file(tensors, file.name, metadata={_ABOUT: text})
        except SafetensorError as error:
            # It has the system's error in its text alone.
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
