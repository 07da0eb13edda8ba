"""Checkpoints of verl, with FSDP1 (flat or original parameters) and FSDP2.

`global_step_N/actor` has one file of weights and one of the optimizer per process, and
the model config in `huggingface`. The optimizer numbers its parameters.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Size, Tensor, nn
from torch.distributed.tensor import DTensor, Replicate, Shard

from entrometer.importers.checkpoint import EVERY_PROCESS, ForeignCheckpoint, Lora
from entrometer.importers.sharded import FlatPieces, ShardedTensor
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
    """Return how many processes saved a directory; None if verl did not save it."""
    matches = [m for file in path.iterdir() if (m := _FILE.fullmatch(file.name))]
    return int(matches[0][1]) if matches else None


def read_verl(path: Path) -> ForeignCheckpoint:
    """Return the checkpoint in the `actor` directory of a step."""
    processes = world_size(path)
    assert processes is not None, path
    models, optimizers = (
        [
            read_tensors(path / f"{start}_rank_{rank}.pt", absent=EVERY_PROCESS)
            for rank in range(processes)
        ]
        for start in (f"{kind}_world_size_{processes}" for kind in ("model", "optim"))
    )
    about, lora = path / "huggingface", _lora(path, models[0])
    model = skeleton(about, len(models[0]))
    if lora is not None:
        model = adapted(model, lora_config(*lora))
    # A tied weight has one name among the parameters, but several in the files.
    weights = {
        name: joined(name, [shard[name] for shard in models])
        for name, _ in model.named_parameters()
        if name in models[0]
    }
    # The replicas of a hybrid mesh hold equal shards: read each shard once.
    sharded = next((t for t in models[0].values() if isinstance(t, DTensor)), None)
    ranks = range(processes) if sharded is None else shard_ranks(sharded)
    first, second, steps = moments(path, model, [optimizers[rank] for rank in ranks])
    groups = param_groups(path, optimizers[0])
    settings = common_settings(path, groups)
    return ForeignCheckpoint(
        about=about,
        lora=lora,
        weights=weights,
        first_moment=first,
        second_moment=second,
        weight_decay=dict.fromkeys(first, float(groups[0]["weight_decay"])),
        step=steps,
        **settings._asdict(),
    )


def moments(
    path: Path, model: nn.Module, optimizers: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, ShardedTensor], dict[str, ShardedTensor], int]:
    """Return AdamW's first and second moments by name, and its number of steps."""
    groups = param_groups(path, optimizers[0])
    if len(groups) != 1:
        raise UnreadableSource(
            f"{path}: expected all parameters in one group of the optimizer, in the "
            f"model's order, as verl has them; got {len(groups)} groups. Train without "
            "custom parameter groups."
        )
    keys = groups[0]["params"]
    named = {name: p.shape for name, p in model.named_parameters()}
    flat = flat_parameters(model)
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
    by_kind: dict[str, dict[str, ShardedTensor]] = {"exp_avg": {}, "exp_avg_sq": {}}
    steps: set[int] = set()
    for key, block in zip(keys, blocks, strict=True):
        states = [optimizer["state"].get(key) for optimizer in optimizers]
        if not any(states):
            continue
        steps.update(step_count(path, state["step"]) for state in states if state)
        for kind, by_name in by_kind.items():
            shards = [state and state[kind] for state in states]
            whole = joined(f"{kind} of {', '.join(block)}", shards)
            expected = sum(shape.numel() for shape in block.values())
            # FSDP1 pads a flat parameter to a multiple of the number of processes.
            padding = whole.numel() - expected
            most = len(optimizers) if len(whole.shape) == 1 else 1
            if not 0 <= padding < most:
                raise UnreadableSource(
                    f"{path}: expected {expected} values for {next(iter(block))} and "
                    f"what was flattened with it, got {whole.numel()}. Wrap layers as "
                    "verl does by default, or train with `strategy: fsdp2`."
                )
            by_name.update(split(whole, block))
    return by_kind["exp_avg"], by_kind["exp_avg_sq"], one_step(path, steps)


def _lora(path: Path, weights: Iterable[str]) -> Lora | None:
    targets = {m[1] for name in weights if (m := _LORA.search(name))}
    if not targets:
        return None
    about = read_json(path / "lora_train_meta.json")
    return Lora(int(about["r"]), float(about["lora_alpha"]), tuple(sorted(targets)))


def flat_parameters(model: nn.Module) -> list[dict[str, Size]]:
    """Return names and shapes of the parameters in each of FSDP1's flat parameters.

    They are in the optimizer's order. verl wraps each layer in the model's
    `_no_split_modules`, each matrix of an adapter, and the rest as a whole; a wrapped
    module precedes those inside of it.
    """
    wrapped = _wrapped(model)
    by_module: dict[str, dict[str, Size]] = {
        name: {}
        for name, module in model.named_modules()
        if not name or wrapped(module)
    }
    for name, p in model.named_parameters():
        module = name.rpartition(".")[0]
        while module not in by_module:
            module = module.rpartition(".")[0]
        by_module[module][name] = p.shape
    return [shapes for shapes in by_module.values() if shapes]


def _wrapped(model: nn.Module) -> Callable[[nn.Module], bool]:
    layers = set(getattr(model, "_no_split_modules", None) or ())
    adapted = any(not p.requires_grad for p in model.parameters())

    def wrapped(module: nn.Module) -> bool:
        if type(module).__name__ in layers:
            return True
        weight = getattr(module, "weight", None)
        leaf = next(module.children(), None) is None
        return adapted and leaf and weight is not None and weight.requires_grad

    return wrapped


def joined(name: str, shards: Sequence[Tensor | None]) -> ShardedTensor:
    """Return a whole tensor from the shard of each process, in order of rank.

    A DTensor knows how it was sharded. Plain shards are consecutive parts of the
    flattened tensor; a process may have none.
    """
    present = [shard for shard in shards if shard is not None]
    first = present[0]
    if not isinstance(first, DTensor):
        # Processes repeat a scalar.
        pieces = present[:1] if first.dim() == 0 else present
        rows = [p.shape[0] for p in pieces if p.dim()]
        # A flat shard may be empty; others have the shape of a row in common.
        shape = Size([sum(rows), *first.shape[1:]] if rows else [])
        return ShardedTensor(tuple(pieces), shape)
    placements = [place for place in first.placements if place != Replicate()]
    if not placements:
        return ShardedTensor((first.to_local(),), first.shape)
    if len(placements) > 1 or type(placements[0]) is not Shard:
        raise UnreadableSource(
            f"{name}: expected a tensor sharded along one dimension by one dimension "
            f"of the mesh, got {first.placements}. Save it with plain FSDP, or merge "
            "it with the framework's own tool."
        )
    once = [shards[rank] for rank in shard_ranks(first)]
    local = [shard.to_local() for shard in once if isinstance(shard, DTensor)]
    dim = placements[0].dim
    # Shapes alone: nothing of the files is read.
    whole = torch.cat([shard.to("meta") for shard in local], dim)
    if whole.shape != first.shape:
        raise UnreadableSource(
            f"{name}: expected shards of a tensor of shape {tuple(first.shape)}, got "
            f"{tuple(whole.shape)} from them. The files are of different checkpoints; "
            "copy the whole directory again."
        )
    return ShardedTensor(tuple(local), first.shape, dim)


def shard_ranks(tensor: DTensor) -> list[int]:
    """Return the ranks of the first replica's processes, which hold each shard once."""
    ranks = tensor.device_mesh.mesh
    for place in reversed(range(ranks.dim())):
        if tensor.placements[place] == Replicate():
            ranks = ranks.select(place, 0)
    return cast(list[int], ranks.flatten().tolist())


def split(
    whole: ShardedTensor, shapes: Mapping[str, Sequence[int]]
) -> dict[str, ShardedTensor]:
    """Return the tensors, by name, that a flat one holds one after another."""
    if len(shapes) == 1:
        (name,), (shape,) = shapes, shapes.values()
        if tuple(shape) == tuple(whole.shape):
            return {name: whole}
    flat = FlatPieces(whole.pieces)
    parts, begin = {}, 0
    for name, shape in shapes.items():
        size = torch.Size(shape)
        pieces = flat.part(begin, begin + size.numel())
        parts[name] = ShardedTensor(tuple(pieces), size)
        begin += size.numel()
    return parts
