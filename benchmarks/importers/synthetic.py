"""Checkpoints of many processes in the layouts of verl and DeepSpeed, of known values.

They need no framework and no training: the layouts are those that the frameworks write,
which `frameworks.py` has them do. DeepSpeed's second copy of the weights, in the
precision of the model, is left out: no importer reads it.
"""

import json
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Size, Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from entrometer.policy.tiny import save_tiny
from entrometer.policy.weights import skeleton

KINDS = ("fsdp2", "fsdp", "zero2", "zero3")
MOMENTS = ("exp_avg", "exp_avg_sq")
_WIDTH, _VOCABULARY, _STEP = 768, 4096, 3
_DECAY = 0.01
_KINDS = {"weight": (0.02, 0), "exp_avg": (1e-3, 1), "exp_avg_sq": (1e-2, 2)}
"""Size and seed of what is drawn."""
_GROUP = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "amsgrad": False}

Shapes = dict[str, Size]


@dataclass
class fragment_address:  # noqa: N801  # DeepSpeed's name, by which it is unpickled.
    """Place of a parameter in the partition of a process."""

    numel: int
    start: int


def value(shapes: Shapes, name: str, kind: str) -> Tensor:
    """The weight or the moment of a parameter, different everywhere."""
    size, seed = _KINDS[kind]
    generator = torch.Generator().manual_seed(10 * list(shapes).index(name) + seed)
    drawn = torch.randn(shapes[name], generator=generator).mul_(size)
    return drawn.square_() if kind == "exp_avg_sq" else drawn


def save_base(folder: Path, layers: int) -> Path:
    """Config and tokenizer of a model of 6 million parameters per layer."""
    base = save_tiny(folder)
    (base / "model.safetensors").unlink()
    config = json.loads((base / "config.json").read_text())
    config |= {
        "vocab_size": _VOCABULARY,
        "hidden_size": _WIDTH,
        "intermediate_size": 2048,
        "num_hidden_layers": layers,
        "layer_types": ["full_attention"] * layers,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "max_window_layers": layers,
    }
    (base / "config.json").write_text(json.dumps(config))
    return base


def shapes_of(base: Path) -> Shapes:
    return {n: p.shape for n, p in skeleton(base, 10_000).named_parameters()}


def write(kind: str, processes: int, layers: int, folder: Path) -> None:
    """Write verl's `global_step_N`, or OpenRLHF's `_actor` and the model in `base`.

    In a process of its own: it joins groups of processes that are not there.
    """
    if kind.startswith("fsdp"):
        actor = folder / f"global_step_{_STEP}" / "actor"
        shapes = shapes_of(save_base(actor / "huggingface", layers))
        for rank in range(processes):
            _verl(kind, shapes, rank, processes, actor)
        return
    shapes = shapes_of(save_base(folder / "base", layers))
    directory = folder / "_actor" / f"global_step{_STEP}"
    directory.mkdir(parents=True)
    (folder / "_actor" / "latest").write_text(directory.name)
    _deepspeed(kind, shapes, processes, directory)


def _verl(kind: str, shapes: Shapes, rank: int, processes: int, actor: Path) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    # A group of processes that are not there: the mesh of a DTensor needs one.
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=processes)
    mesh = init_device_mesh("cpu", (processes,), mesh_dim_names=("fsdp",))

    def shard(name: str, kind: str) -> DTensor:
        whole = value(shapes, name, kind)
        chunks = whole.chunk(processes)
        local = chunks[rank].clone() if rank < len(chunks) else whole[:0].clone()
        return DTensor.from_local(
            local,
            mesh,
            [Shard(0)],
            run_check=False,
            shape=whole.shape,
            stride=whole.stride(),
        )

    step = torch.tensor(float(_STEP))
    state: dict[int, dict[str, Tensor]] = {}
    if kind == "fsdp2":
        for key, name in enumerate(shapes):
            state[key] = {"step": step, **{m: shard(name, m) for m in MOMENTS}}
    else:
        for key, names in enumerate(_blocks(shapes)):
            parts = {m: _part(shapes, names, m, rank, processes) for m in MOMENTS}
            state[key] = {"step": step, **parts}
    group = {**_GROUP, "weight_decay": _DECAY, "params": list(state)}
    end = f"world_size_{processes}_rank_{rank}.pt"
    torch.save({n: shard(n, "weight") for n in shapes}, actor / f"model_{end}")
    torch.save({"state": state, "param_groups": [group]}, actor / f"optim_{end}")
    dist.destroy_process_group()


def _blocks(shapes: Shapes) -> list[list[str]]:
    """What FSDP1 flattens together: all that is in no layer, then each layer."""
    blocks: dict[str, list[str]] = {"": []}
    for name in shapes:
        layer = name.split(".")[2] if ".layers." in name else ""
        blocks.setdefault(layer, []).append(name)
    return list(blocks.values())


def _part(
    shapes: Shapes, names: list[str], kind: str, rank: int, processes: int
) -> Tensor:
    """The equal part of a process of what is flattened together, padded with zeros."""
    flat = torch.cat([value(shapes, name, kind).flatten() for name in names])
    flat = torch.cat([flat, flat.new_zeros(-flat.numel() % processes)])
    return flat.chunk(processes)[rank].clone()


def _deepspeed(kind: str, shapes: Shapes, processes: int, directory: Path) -> None:
    for name in ("deepspeed", "deepspeed.utils", "deepspeed.utils.tensor_fragment"):
        sys.modules[name] = ModuleType(name)
    fragment_address.__module__ = "deepspeed.utils.tensor_fragment"
    module = sys.modules[fragment_address.__module__]
    setattr(module, fragment_address.__name__, fragment_address)
    plain = [name for name in shapes if "norm" in name or name.endswith("bias")]
    groups = [[name for name in shapes if name not in plain], plain]
    about = {
        "param_shapes": [
            OrderedDict((n, shapes[n]) for n in names) for names in groups
        ],
        "frozen_param_shapes": None,
    }
    start = "zero_pp_rank_0_" if kind == "zero3" else ""
    torch.save(about, directory / f"{start}mp_rank_00_model_states.pt")
    settings = [{**_GROUP, "weight_decay": decay} for decay in (_DECAY, 0.0)]
    for rank in range(processes):
        part = _equal if kind == "zero3" else _part

        def flat(of: str, rank: int = rank, part: Any = part) -> list[Tensor]:
            return [part(shapes, names, of, rank, processes) for names in groups]

        moments = zip(*(flat(of) for of in MOMENTS), strict=True)
        step = torch.tensor(float(_STEP))
        state = {
            key: {"step": step, **dict(zip(MOMENTS, pair, strict=True))}
            for key, pair in enumerate(moments)
        }
        inner = {"state": state, "param_groups": settings}
        held: dict[str, Any]
        if kind == "zero3":
            held = {"fp32_flat_groups": flat("weight"), "optimizer_state_dict": inner}
        else:
            held = {
                "single_partition_of_fp32_groups": flat("weight"),
                "base_optimizer_state": inner,
                "param_slice_mappings": [
                    OrderedDict(_slices(shapes, names, rank, processes))
                    for names in groups
                ],
            }
        file = directory / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": held}, file)


def _equal(
    shapes: Shapes, names: list[str], kind: str, rank: int, processes: int
) -> Tensor:
    """ZeRO 3: an equal part of each parameter, one after another."""
    return torch.cat([_part(shapes, [n], kind, rank, processes) for n in names])


def _slices(
    shapes: Shapes, names: list[str], rank: int, processes: int
) -> Iterator[tuple[str, fragment_address]]:
    """ZeRO 2: where the parameters lie in the partition of a process."""
    total = sum(shapes[name].numel() for name in names)
    size = -(-total // processes)
    begin = -rank * size
    for name in names:
        start, end = max(0, begin), min(size, begin + shapes[name].numel())
        if start < end:
            yield name, fragment_address(numel=end - start, start=start)
        begin += shapes[name].numel()
