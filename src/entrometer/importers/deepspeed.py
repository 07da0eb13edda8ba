"""Checkpoints of DeepSpeed with ZeRO 1, 2 and 3, as OpenRLHF and others save them.

A step's directory holds the shapes of the parameters in `*_model_states.pt`, and for
each process a file `*zero_pp_rank_R_mp_rank_00_optim_states.pt` with its part of the
flattened float32 weights and moments. The model's settings are not in it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entrometer.importers.foreign import EVERY_PROCESS, Foreign
from entrometer.policy.optimizer_state import (
    common_settings,
    one_step,
    param_groups,
    step_count,
)
from entrometer.policy.sources import UnreadableSource
from entrometer.policy.tensor_files import read_tensors

_OPTIMIZER = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_MODEL = ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt")

Flat = Sequence[Sequence[Tensor]]
"""What each process holds: a flat tensor for every group."""


_Cut = Callable[[Path, Flat], Iterator[tuple[str, Tensor]]]


class _Opaque:
    """In place of DeepSpeed's own objects: takes what they hold, and does nothing."""

    def __init__(self, *values: Any) -> None:
        self.values = values


HARMLESS = [
    (_Opaque, f"deepspeed.{name}")
    for name in (
        "runtime.fp16.loss_scaler.LossScaler",
        "runtime.fp16.loss_scaler.DynamicLossScaler",
        "runtime.zero.config.ZeroStageEnum",
        "utils.tensor_fragment.fragment_address",
    )
]


def optimizer_files(path: Path) -> list[Path]:
    """The files of a step's directory, in the order of the processes."""
    found = [
        (int(m[1]), f) for f in path.iterdir() if (m := _OPTIMIZER.fullmatch(f.name))
    ]
    return [file for _, file in sorted(found)]


def read_deepspeed(path: Path, about: Path) -> Foreign:
    """Read a step's directory.

    Args:
        path: The directory, `global_stepN`.
        about: That of the model that was trained, for its settings and its tokenizer.
    """
    model = next((path / name for name in _MODEL if (path / name).is_file()), None)
    content = _read(model or path / _MODEL[0])
    if content["frozen_param_shapes"]:
        raise UnreadableSource(
            f"{path}: expected a model that was trained whole, got "
            f"{len(content['frozen_param_shapes'])} frozen parameters, and DeepSpeed "
            "does not save what an adapter was scaled by. Save it with peft as well."
        )
    held = [_read(file)["optimizer_state_dict"] for file in optimizer_files(path)]
    groups: list[dict[str, torch.Size]] = content["param_shapes"]
    inner = [
        own.get("base_optimizer_state") or own["optimizer_state_dict"] for own in held
    ]
    if "single_partition_of_fp32_groups" in held[0]:
        kept = [own["single_partition_of_fp32_groups"] for own in held]
        cut: _Cut = _Slices(groups, [own["param_slice_mappings"] for own in held])
    else:
        kept = [own["fp32_flat_groups"] for own in held]
        cut = _Shares(groups, len(held))
    settings = common_settings(path, param_groups(path, inner[0]))
    return Foreign(
        about=about,
        lora=None,
        weights=dict(cut(path, kept)),
        first_moment=dict(cut(path, _moments(inner, "exp_avg"))),
        second_moment=dict(cut(path, _moments(inner, "exp_avg_sq"))),
        weight_decay={
            name: float(own["weight_decay"])
            for group, own in zip(groups, inner[0]["param_groups"], strict=True)
            for name in group
        },
        step=_steps(path, inner),
        learning_rate=settings.learning_rate,
        betas=settings.betas,
        epsilon=settings.epsilon,
    )


def _read(file: Path) -> dict[str, Any]:
    return read_tensors(file, absent=EVERY_PROCESS, harmless=HARMLESS)


class _Slices:
    """ZeRO 1 and 2: a group is flattened as a whole; each process has a slice of it."""

    def __init__(
        self,
        groups: Sequence[Mapping[str, torch.Size]],
        addresses: Sequence[Sequence[Mapping[str, Any]]],
    ) -> None:
        self._groups, self._addresses = groups, addresses

    def __call__(self, path: Path, kept: Flat) -> Iterator[tuple[str, Tensor]]:
        for place, group in enumerate(self._groups):
            for name, shape in group.items():
                pieces = []
                for flat, addresses in zip(kept, self._addresses, strict=True):
                    if name in addresses[place]:
                        at = addresses[place][name]
                        pieces.append(flat[place][at.start : at.start + at.numel])
                own = torch.cat(pieces) if pieces else torch.empty(0)
                yield name, _whole(path, name, own, shape)


class _Shares:
    """ZeRO 3: each process has an equal share of every parameter, one after another."""

    def __init__(
        self, groups: Sequence[Mapping[str, torch.Size]], processes: int
    ) -> None:
        self._groups, self._processes = groups, processes

    def __call__(self, path: Path, kept: Flat) -> Iterator[tuple[str, Tensor]]:
        rows = [torch.cat(list(flat)) for flat in kept]
        begin = 0
        for name, shape in (item for group in self._groups for item in group.items()):
            end = begin + -(-shape.numel() // self._processes)
            own = torch.cat([row[begin:end] for row in rows])[: shape.numel()]
            yield name, _whole(path, name, own, shape)
            begin = end


def _whole(path: Path, name: str, flat: Tensor, shape: torch.Size) -> Tensor:
    if flat.numel() != shape.numel():
        raise UnreadableSource(
            f"{path}: {name}: expected {shape.numel()} values from all processes, got "
            f"{flat.numel()}. A file is missing or of another step; copy the whole "
            "directory again."
        )
    return flat.reshape(shape)


def _moments(inner: Sequence[Mapping[str, Any]], kind: str) -> Flat:
    return [[own["state"][key][kind] for key in sorted(own["state"])] for own in inner]


def _steps(path: Path, inner: Sequence[Mapping[str, Any]]) -> int:
    """Of each parameter; fused ones keep it with the group."""
    steps = {
        step_count(path, holder["step"])
        for own in inner
        for holder in (*own["state"].values(), *own["param_groups"])
        if "step" in holder
    }
    return one_step(path, steps)
