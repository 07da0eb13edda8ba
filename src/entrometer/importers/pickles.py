"""Tensors from a framework's files, which are pickles: nothing in them is run."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# Without it torch refuses DTensors; with it they are on its list of harmless types.
import torch.distributed.tensor

from entrometer.policy.sources import SourceNotFound, UnreadableSource, one_line

_MESH = logging.getLogger("torch.distributed.device_mesh")


def read_tensors(path: Path, *, harmless: Sequence[Any] = ()) -> dict[str, Any]:
    """Read a file that `torch.save` wrote, by torch's reader of plain data.

    Args:
        path: The file.
        harmless: Types beside torch's own that may be made from it.
    """
    if not path.is_file():
        raise SourceNotFound(
            f"{path}: no such file. Every process of the training saved one; copy the "
            "whole directory again, from all nodes."
        )
    try:
        with torch.serialization.safe_globals(list(harmless)), _no_word_of_meshes():
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch passes on whatever its readers raise.
        raise UnreadableSource(
            f"{path}: not a whole file of tensors ({one_line(error)}). Copy it again, "
            "or use an earlier checkpoint."
        ) from error
    if not isinstance(content, dict):
        raise UnreadableSource(
            f"{path}: expected named tensors, got a {type(content).__name__}. Name the "
            "directory that the framework saved."
        )
    return content


@contextmanager
def _no_word_of_meshes() -> Iterator[None]:
    """DTensors bring their mesh of processes, and torch warns that there are none."""
    level = _MESH.level
    _MESH.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _MESH.setLevel(level)
