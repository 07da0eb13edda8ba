"""Hostile checkpoints of other frameworks: verl, DeepSpeed, prime-rl."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.hostile.case import Case, Pickled, Workshop, deep, edit, put, sparse
from benchmarks.hostile.world import STEP, sequence

Change = Callable[[dict[str, Any]], Any]
VERL = f"verl/global_step_{STEP}"
OPTIM, MODEL = "optim_world_size_1_rank_0.pt", "model_world_size_1_rank_0.pt"
ZERO = "zero_pp_rank_0_mp_rank_00_optim_states.pt"
SHAPES = "zero_pp_rank_0_mp_rank_00_model_states.pt"


def _set(*path: Any, to: Any) -> Change:
    def change(content: dict[str, Any]) -> None:
        inside: Any = content
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = to

    return change


OF_VERL: dict[str, tuple[str, Change]] = {
    "state a list": (OPTIM, _set("state", to=[])),
    "no state": (OPTIM, lambda c: c.pop("state")),
    "no groups": (OPTIM, lambda c: c.pop("param_groups")),
    "groups 5": (OPTIM, _set("param_groups", to=5)),
    "params 5": (OPTIM, _set("param_groups", 0, "params", to=5)),
    "a moment as text": (OPTIM, _set("state", 0, "exp_avg", to="a")),
    "a moment of 4 TB": (
        OPTIM,
        _set("state", 0, "exp_avg", to=torch.ones(1).expand(10**12)),
    ),
    "NaN step": (OPTIM, _set("state", 0, "step", to=torch.tensor(torch.nan))),
    "lr as text": (OPTIM, _set("param_groups", 0, "lr", to="a")),
    "weights as text": (MODEL, _set("model.norm.weight", to="a")),
    "a weight missing": (MODEL, lambda c: c.pop("model.norm.weight")),
    "no weights": (MODEL, lambda c: c.clear()),
    "an adapter without settings": (
        MODEL,
        _set("model.layers.0.q_proj.lora_A.default.weight", to=torch.ones(2, 2)),
    ),
}
_HELD = "optimizer_state_dict"
OF_DEEPSPEED: dict[str, tuple[str, Change]] = {
    "no shapes": (SHAPES, lambda c: c.pop("param_shapes")),
    "no frozen shapes": (SHAPES, lambda c: c.pop("frozen_param_shapes")),
    "shapes 5": (SHAPES, _set("param_shapes", to=5)),
    "shapes of text": (SHAPES, _set("param_shapes", to=[{"a": "b"}])),
    "a shape of 1e15": (
        SHAPES,
        _set("param_shapes", 0, "model.norm.weight", to=torch.Size([10**15])),
    ),
    "no optimizer": (ZERO, lambda c: c.pop(_HELD)),
    "optimizer 5": (ZERO, _set(_HELD, to=5)),
    "nothing in it": (ZERO, _set(_HELD, to={})),
    "no flat groups": (ZERO, lambda c: c[_HELD].pop("fp32_flat_groups")),
    "flat groups as text": (ZERO, _set(_HELD, "fp32_flat_groups", to=["a"])),
    "flat groups of 4 TB": (
        ZERO,
        _set(_HELD, "fp32_flat_groups", to=[torch.ones(1).expand(10**12)]),
    ),
    "slices without addresses": (
        ZERO,
        _set(_HELD, "single_partition_of_fp32_groups", to=[torch.ones(1)]),
    ),
    "no param_groups": (ZERO, lambda c: c[_HELD][_HELD].pop("param_groups")),
    "no inner state": (ZERO, lambda c: c[_HELD][_HELD].pop("state")),
    "a moment missing": (ZERO, lambda c: c[_HELD][_HELD]["state"][0].pop("exp_avg")),
    "NaN step": (
        ZERO,
        _set(_HELD, _HELD, "state", 0, "step", to=torch.tensor(torch.nan)),
    ),
}
LINES: dict[str, Any] = {
    "a list": [1],
    "a number": 5,
    "another schema": {"schema_version": 2},
    "a column null": {"entropy": None},
    "step as text": {"step": "3"},
    "step negative": {"step": -5},
    "tokens as text": {"token_ids": ["a", "b", "c"]},
    "a token of 2^40": {"token_ids": [5, 6, 2**40]},
    "a token of -1": {"token_ids": [5, 6, -1]},
    "tokens as a number": {"token_ids": 5},
    "tokens as a text of three": {"token_ids": "abc"},
    "mask of numbers": {"loss_mask": [0, 1, 2]},
    "advantages as lists": {"advantages": [[1], [2], [3]]},
    "advantages NaN": {"advantages": [0.0, float("nan"), 0.0]},
    "entropy infinite": {"entropy": [0.0, float("inf"), 0.0]},
    "rewards as text": {"rewards": ["a", "b", "c"]},
    "a column too short": {"entropy": [0.0]},
    "a prompt alone": {"loss_mask": [False, False, False]},
    "no prompt": {"loss_mask": [True, True, True]},
}
RAW = {
    "deep": deep(50_000).encode(),
    "not UTF-8": b"\xff\xfe\n",
    "cut": json.dumps(sequence())[:50].encode(),
    "empty": b"",
}


def cases() -> list[Case]:
    found = [_verl(name, *how) for name, how in OF_VERL.items()]
    found += [_deepspeed(name, *how) for name, how in OF_DEEPSPEED.items()]
    hostile = ((OPTIM, _verl), (MODEL, _verl), (ZERO, _deepspeed), (SHAPES, _deepspeed))
    found += [kind(f"a pickle in {file}", file, None) for file, kind in hostile]
    found += [_prime(name, line) for name, line in LINES.items()]
    found += [_prime(name, text) for name, text in RAW.items()]
    found += [
        Case("verl", "a config of 1e9 layers", _layers, "huggingface"),
        Case("verl", "1 TiB of zeros", _sparse, OPTIM),
        Case("verl", "rank of no number", _lora, "verl"),
        Case("deepspeed", "a link to a device as latest", _latest, "deepspeed"),
    ]
    return found


def _rewrite(file: Path, change: Change | None, canary: Path) -> None:
    content = {"a": Pickled(canary)}
    if change is not None:
        content = torch.load(file, weights_only=True)
        change(content)
    file.unlink()
    torch.save(content, file)


def _verl(name: str, file: str, change: Change | None) -> Case:
    def make(shop: Workshop) -> list[str]:
        shop.copy("verl")
        _rewrite(shop.folder / VERL / "actor" / file, change, shop.canary)
        return ["import", VERL, "imported"]

    return Case("verl", name, make, "verl" if change else file)


def _deepspeed(name: str, file: str, change: Change | None) -> Case:
    def make(shop: Workshop) -> list[str]:
        shop.copy("full")
        path = shop.copy("deepspeed") / f"global_step{STEP}"
        _rewrite(path / file, change, shop.canary)
        base = f"full/checkpoint-{STEP}"
        return ["import", str(path), "imported", "--base", base]

    return Case("deepspeed", name, make, "deepspeed" if change else file)


def _prime(name: str, content: Any) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("prime_rl") / f"step_{STEP}"
        line = sequence() | content if isinstance(content, dict) else content
        text = content if isinstance(content, bytes) else json.dumps(line).encode()
        put(path / "rank_0.jsonl", text)
        return ["import", str(path), "imported"]

    return Case("prime-rl", name, make, f"step_{STEP}")


def _layers(shop: Workshop) -> list[str]:
    path = shop.copy("verl") / f"global_step_{STEP}" / "actor" / "huggingface"
    edit(path / "config.json", num_hidden_layers=10**9)
    return ["import", VERL, "imported"]


def _sparse(shop: Workshop) -> list[str]:
    path = shop.copy("verl") / f"global_step_{STEP}" / "actor" / OPTIM
    sparse(path, 2**40)
    return ["import", VERL, "imported"]


def _lora(shop: Workshop) -> list[str]:
    path = shop.copy("verl") / f"global_step_{STEP}" / "actor"
    change = OF_VERL["an adapter without settings"][1]
    _rewrite(path / MODEL, change, shop.canary)
    put(path / "lora_train_meta.json", '{"r": "x", "lora_alpha": NaN}')
    return ["import", VERL, "imported"]


def _latest(shop: Workshop) -> list[str]:
    path = shop.copy("deepspeed")
    (path / "latest").symlink_to("/dev/zero")
    return ["import", str(path), "imported"]
