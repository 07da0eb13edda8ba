"""Checkpoints of DeepSpeed with ZeRO 1, 2 and 3, as OpenRLHF and others save them.

A step's directory has the shapes of the parameters in `*_model_states.pt`, and for each
process a file `*zero_pp_rank_R_mp_rank_00_optim_states.pt` with its part of the
flattened float32 weights and moments. It lacks the model config.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from entrometer.importers.checkpoint import EVERY_PROCESS, ForeignCheckpoint
from entrometer.importers.sharded import FlatPieces, ShardedTensor
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

Groups = Sequence[Mapping[str, torch.Size]]
"""Shapes of the parameters by name, for every parameter group."""

Flat = Sequence[Sequence[Tensor]]
"""The flat tensor of every parameter group, for each process."""


class _Opaque:
    """Replaces DeepSpeed's classes on unpickling: stores values, runs nothing."""

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
    """Return the optimizer files of a step's directory, in order of rank."""
    by_rank = [
        (int(m[1]), f) for f in path.iterdir() if (m := _OPTIMIZER.fullmatch(f.name))
    ]
    return [file for _, file in sorted(by_rank)]


def read_deepspeed(path: Path, about: Path) -> ForeignCheckpoint:
    """Return the checkpoint in a step's directory, `global_stepN`.

    `about` is the directory of the trained model, with its config and tokenizer.
    """
    model = next((path / name for name in _MODEL if (path / name).is_file()), None)
    content = _read(model or path / _MODEL[0])
    if content["frozen_param_shapes"]:
        raise UnreadableSource(
            f"{path}: expected a fully trained model, got "
            f"{len(content['frozen_param_shapes'])} frozen parameters, and DeepSpeed "
            "does not save the scale of an adapter. Train all of the parameters."
        )
    states = [_read(file)["optimizer_state_dict"] for file in optimizer_files(path)]
    groups: list[dict[str, torch.Size]] = content["param_shapes"]
    adamw = [s.get("base_optimizer_state") or s["optimizer_state_dict"] for s in states]
    if "single_partition_of_fp32_groups" in states[0]:
        flat = [state["single_partition_of_fp32_groups"] for state in states]
        slices = [state["param_slice_mappings"] for state in states]
        whole = partial(_from_slices, path, groups, slices)
    else:
        flat = [state["fp32_flat_groups"] for state in states]
        whole = partial(_from_equal_parts, path, groups)
    settings = common_settings(path, param_groups(path, adamw[0]))
    return ForeignCheckpoint(
        about=about,
        lora=None,
        weights=dict(whole(flat)),
        first_moment=dict(whole(_moments(adamw, "exp_avg"))),
        second_moment=dict(whole(_moments(adamw, "exp_avg_sq"))),
        weight_decay={
            name: float(about_group["weight_decay"])
            for group, about_group in zip(groups, adamw[0]["param_groups"], strict=True)
            for name in group
        },
        step=_steps(path, adamw),
        **settings._asdict(),
    )


def _read(file: Path) -> dict[str, Any]:
    return read_tensors(file, absent=EVERY_PROCESS, harmless=HARMLESS)


def _from_slices(
    path: Path, groups: Groups, slices: Sequence[Sequence[Any]], flat: Flat
) -> Iterator[tuple[str, ShardedTensor]]:
    """Parameters of ZeRO 1 and 2: each process has a slice of every flattened group."""
    for place, group in enumerate(groups):
        for name, shape in group.items():
            pieces = [
                tensors[place][at.start : at.start + at.numel]
                for tensors, by_name in zip(flat, slices, strict=True)
                if (at := by_name[place].get(name)) is not None
            ]
            yield name, _reshaped(path, name, pieces, shape)


def _from_equal_parts(
    path: Path, groups: Groups, flat: Flat
) -> Iterator[tuple[str, ShardedTensor]]:
    """Parameters of ZeRO 3: each process has an equal part of every parameter."""
    rows = [FlatPieces(tensors) for tensors in flat]
    begin = 0
    for name, shape in (item for group in groups for item in group.items()):
        # Rounded up: DeepSpeed pads the last part.
        part = -(-shape.numel() // len(flat))
        pieces = []
        for rank, row in enumerate(rows):
            left = max(0, min(part, shape.numel() - rank * part))
            pieces += row.part(begin, begin + left)
        yield name, _reshaped(path, name, pieces, shape)
        begin += part


def _reshaped(
    path: Path, name: str, pieces: Sequence[Tensor], shape: torch.Size
) -> ShardedTensor:
    if not isinstance(name, str):
        raise TypeError(f"expected names of parameters, got a {type(name).__name__}")
    got = sum(piece.numel() for piece in pieces)
    if got != shape.numel():
        raise UnreadableSource(
            f"{path}: {name}: expected {shape.numel()} values from all processes, got "
            f"{got}. A file is missing or of another step: copy all again."
        )
    return ShardedTensor(tuple(pieces), shape)


def _moments(adamw: Sequence[Mapping[str, Any]], kind: str) -> Flat:
    states = [optimizer["state"] for optimizer in adamw]
    return [[state[key][kind] for key in sorted(state)] for state in states]


def _steps(path: Path, adamw: Sequence[Mapping[str, Any]]) -> int:
    # Fused optimizers keep the step in the group, others in each parameter's state.
    steps = {
        step_count(path, holder["step"])
        for optimizer in adamw
        for holder in (*optimizer["state"].values(), *optimizer["param_groups"])
        if "step" in holder
    }
    return one_step(path, steps)
