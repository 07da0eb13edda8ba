"""Read the tensors of a `torch.save` file, a pickle, without running its content."""

import logging
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# Importing it puts DTensors on torch's list of harmless types.
import torch.distributed.tensor
from torch import Tensor

from entrometer.policy.sources import SourceNotFound, UnreadableSource, one_line

_MESH = logging.getLogger("torch.distributed.device_mesh")

# Two functions that torch's reader of plain data calls with any argument. They make
# gigabytes from a number, or take hours for a text; no optimizer's state needs them.
_EXPANDING = (b"bytearray", b"_codecs")

# Tied weights are stored once and named twice, so tensors may exceed the file.
_VIEWS = 4


def read_tensors(
    path: Path, *, absent: str, harmless: Sequence[Any] = ()
) -> dict[str, Any]:
    """Read a file that `torch.save` wrote; its tensors are views of the file.

    `absent` ends the error message if there is no such file; `harmless` are types that
    the file may contain besides torch's own.
    """
    require_stored(path, absent=absent)
    try:
        with torch.serialization.safe_globals(list(harmless)), _no_mesh_warnings():
            # Mapped: when it reads, torch trusts the size that a storage claims, and
            # reads beyond the end of the file.
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        _require_held(content, path.stat().st_size)
    except Exception as error:  # torch passes on whatever its readers raise.
        raise _damaged(path, error) from error
    if not isinstance(content, dict):
        raise UnreadableSource(
            f"{path}: expected named tensors, got a {type(content).__name__}. Name the "
            "directory that a trainer saved."
        )
    return content


def require_stored(path: Path, *, absent: str) -> None:
    """Raise unless a file is torch's archive, with each entry once, uncompressed."""
    # A compressed entry, or one that is listed many times, could be of any size.
    if not path.is_file():
        raise SourceNotFound(f"{path}: no such file. {absent}")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("expected entries as they are, got compressed ones")
            size = path.stat().st_size
            if sum(entry.file_size for entry in entries) > size:
                raise ValueError(f"expected entries of {size} bytes in all, got more")
            for entry in entries:
                if entry.filename.endswith("data.pkl"):
                    pickled = archive.read(entry)
                    if any(name in pickled for name in _EXPANDING):
                        raise ValueError("expected tensors and numbers, got bytes")
    except Exception as error:  # zipfile passes on what its parsers raise.
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> UnreadableSource:
    return UnreadableSource(
        f"{path}: not a whole file of tensors ({one_line(error)}). Copy it again, or "
        "use an earlier checkpoint."
    )


def _require_held(content: object, size: int) -> None:
    """Raise if tensors exceed the file, as views that repeat an element do."""
    # Copying or joining such views would allocate the memory that they claim.
    seen: set[int] = set()
    rest, total = [content], 0
    while rest:
        value = rest.pop()
        # Each object once: nested lists can contain one another exponentially often.
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            local = getattr(value, "_local_tensor", value)
            total += local.numel() * local.element_size()
        elif isinstance(value, dict):
            rest += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            rest += value
    if total > _VIEWS * size:
        raise ValueError(f"expected tensors of {size} bytes in all, got {total}")


@contextmanager
def _no_mesh_warnings() -> Iterator[None]:
    # Torch warns that a DTensor's mesh of processes is missing here.
    level = _MESH.level
    _MESH.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _MESH.setLevel(level)
