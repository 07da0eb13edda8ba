"""Rows of a policy's parameters, read from its files without the rest."""

# Axes: E experts, N rows of a parameter.

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from entrometer.policy.sources import UnreadableSource

_EXPERTS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
"""Files have a matrix per expert where a model has one tensor for all."""


class StoredRows:
    """Parameters in safetensors files, by their names in a model."""

    def __init__(self, files: dict[str, Any]) -> None:
        self._files = files
        self._read: set[str] = set()

    def __call__(self, name: str, rows: slice) -> Tensor:
        """Return some rows of a parameter, in the precision in which they are stored.

        Raises `UnreadableSource` if no file has it.
        """
        stored = stored_name(name)
        if stored in self._files:
            return self._slice(stored, rows)
        experts, _, matrix = stored.rpartition(".")
        if f"{experts}.0.{_EXPERTS.get(matrix, ('',))[0]}.weight" not in self._files:
            raise UnreadableSource(
                f"expected {stored} among the weights, got none of that name; save the "
                "model again with `save_pretrained`, or load it in one process"
            )
        parts = [
            [self._slice(f"{experts}.{e}.{part}.weight") for part in _EXPERTS[matrix]]
            for e in range(rows.start, rows.stop)
        ]
        # A process may have no expert at all.
        some = parts or [
            [self._slice(f"{experts}.0.{part}.weight") for part in _EXPERTS[matrix]]
        ]
        return torch.stack([torch.cat(p) for p in some])[: len(parts)]

    def buffers(self, model: nn.Module) -> None:
        """Set the buffers of a model that the files have."""
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if stored_name(name) in self._files:
                    buffer.copy_(self._slice(stored_name(name)))

    def require_all_read(self, tied: Sequence[str]) -> None:
        """Raise if the files have a weight that no parameter has asked for.

        `tied` are names of weights that the model takes from others.
        """
        # Each process reads the names of all parameters, if not their rows.
        others = self._files.keys() - self._read - set(map(stored_name, tied))
        # Some trainers store a mixture's experts that another process has.
        others = {n for n in others if not _of_expert(n)}
        if others:
            raise UnreadableSource(
                f"expected weights of this model alone, got {min(others)} and "
                f"{len(others) - 1} others that it does not have; check that "
                "config.json belongs to them"
            )

    def _slice(self, name: str, rows: slice = slice(None)) -> Tensor:
        self._read.add(name)
        found: Tensor = self._files[name].get_slice(name)[rows]
        return found


def stored_name(name: str) -> str:
    """Return the name of a parameter in the files: without PEFT's wrappers.

    Names of an adapter's own weights begin with `base_model.model.`, as in its file.
    """
    for own in (".lora_A.", ".lora_B.", ".lora_embedding_A.", ".lora_embedding_B."):
        if own in name:
            return name.replace(f"{own}default.weight", f"{own}weight")
    if ".modules_to_save." in name:
        return name.replace(".modules_to_save.default.", ".")
    plain = name.replace(".base_layer", "").replace(".original_module", "")
    return plain.removeprefix("base_model.model.")


def _of_expert(name: str) -> bool:
    return ".experts." in name


@contextmanager
def stored_rows(files: Sequence[Path]) -> Iterator[StoredRows]:
    """Open the files of a model, and of its adapter."""
    with ExitStack() as stack:
        opened: list[Any] = [stack.enter_context(safe_open(f, "pt")) for f in files]
        yield StoredRows({name: file for file in opened for name in file.keys()})  # noqa: SIM118
