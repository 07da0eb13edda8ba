"""Checkpoints of verl, with FSDP1 (flat or original parameters) and FSDP2.

`global_step_N/actor` holds a file of weights and one of the optimizer for every
process, and the model's settings in `huggingface`. The optimizer numbers its
parameters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Size, Tensor, nn
from torch.distributed.tensor import DTensor

from entrometer.importers.foreign import EVERY_PROCESS, Foreign, Lora
from entrometer.importers.fsdp_units import fits, units
from entrometer.importers.pieces import cut_ranks, joined, split
from entrometer.policy.optimizer_state import (
    common_settings,
    one_step,
    param_groups,
    step_count,
)
from entrometer.policy.sources import UnreadableSource, read_json
from entrometer.policy.tensor_files import read_tensors
from entrometer.policy.weights import adapted, lora_config, skeleton

_FILE = re.compile(r"optim_world_size_(\d+)_rank_0\.pt")
_LORA = re.compile(r"(?:^|\.)([^.]+)\.lora_A\.[^.]+\.weight$")


def world_size(path: Path) -> int | None:
    """Processes that saved a directory of verl's; None if it is not one."""
    found = [m for file in path.iterdir() if (m := _FILE.fullmatch(file.name))]
    return int(found[0][1]) if found else None


def read_verl(path: Path) -> Foreign:
    """Read the `actor` directory of a step."""
    processes = world_size(path)
    assert processes is not None, path
    models, optimizers = (
        [
            read_tensors(
                path / f"{kind}_world_size_{processes}_rank_{rank}.pt",
                absent=EVERY_PROCESS,
            )
            for rank in range(processes)
        ]
        for kind in ("model", "optim")
    )
    about, lora = path / "huggingface", _lora(path, models[0])
    model = skeleton(about, len(models[0]))
    if lora is not None:
        model = adapted(model, lora_config(*lora))
    # A tied weight has one name among the parameters, and several in the files.
    weights = {
        name: joined(name, [own[name] for own in models])
        for name, _ in model.named_parameters()
        if name in models[0]
    }
    # The replicas of a hybrid mesh hold the same.
    cut = next((t for t in models[0].values() if isinstance(t, DTensor)), None)
    once = range(processes) if cut is None else cut_ranks(cut)
    first, second, steps = moments(path, model, [optimizers[rank] for rank in once])
    groups = param_groups(path, optimizers[0])
    settings = common_settings(path, groups)
    return Foreign(
        about=about,
        lora=lora,
        weights=weights,
        first_moment=first,
        second_moment=second,
        weight_decay=dict.fromkeys(first, float(groups[0]["weight_decay"])),
        step=steps,
        learning_rate=settings.learning_rate,
        betas=settings.betas,
        epsilon=settings.epsilon,
    )


def moments(
    path: Path, model: nn.Module, optimizers: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """First and second moments by name, and the steps behind them."""
    groups = param_groups(path, optimizers[0])
    if len(groups) != 1:
        raise UnreadableSource(
            f"{path}: expected all parameters in one group of the optimizer, in the "
            f"model's order, as verl has them; got {len(groups)} groups. Train without "
            "groups of your own."
        )
    keys = groups[0]["params"]
    named = {name: p.shape for name, p in model.named_parameters()}
    flat = units(model)
    if len(keys) == len(named):
        blocks: list[dict[str, Size]] = [{name: s} for name, s in named.items()]
    elif len(keys) == len(flat):
        blocks = flat
    else:
        raise UnreadableSource(
            f"{path}: expected an optimizer over the {len(named)} parameters of this "
            f"model, or over {len(flat)} flat ones of its layers, got {len(keys)}. "
            "Wrap layers as verl does by default, or train with `strategy: fsdp2`."
        )
    found: dict[str, dict[str, Tensor]] = {"exp_avg": {}, "exp_avg_sq": {}}
    steps: set[int] = set()
    for key, block in zip(keys, blocks, strict=True):
        states = [optimizer["state"].get(key) for optimizer in optimizers]
        if not any(states):
            continue
        steps.update(step_count(path, state["step"]) for state in states if state)
        for kind, own in found.items():
            pieces = [state and state[kind] for state in states]
            whole = joined(f"{kind} of {', '.join(block)}", pieces)
            if whole.dim() == 1 and not fits(block, whole.numel(), len(optimizers)):
                raise _misfit(path, block, whole.numel())
            own.update(split(whole.flatten(), block))
    return found["exp_avg"], found["exp_avg_sq"], one_step(path, steps)


def _misfit(path: Path, block: Mapping[str, Size], got: int) -> UnreadableSource:
    expected = sum(shape.numel() for shape in block.values())
    return UnreadableSource(
        f"{path}: expected {expected} values for {next(iter(block))} and what was "
        f"flattened with it, got {got}. Wrap layers as verl does by default, or train "
        "with `strategy: fsdp2`."
    )


def _lora(path: Path, weights: Iterable[str]) -> Lora | None:
    targets = {m[1] for name in weights if (m := _LORA.search(name))}
    if not targets:
        return None
    about = read_json(path / "lora_train_meta.json")
    return Lora(int(about["r"]), float(about["lora_alpha"]), tuple(sorted(targets)))
