"""Hostile adapters: patterns that never end, ranks that fill the memory, bases."""

from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.hostile.case import Case, Pickled, Workshop, deep, edit, measure, put
from benchmarks.hostile.world import STEP

_ENDLESS = "(.+)+!"

CHANGES: dict[str, dict[str, Any]] = {
    "endless target_modules": {"target_modules": _ENDLESS},
    "endless target_modules in a list": {"target_modules": [_ENDLESS]},
    "alternating target_modules": {"target_modules": "(a|a|[a-z.0-9_]+)+x"},
    "a plain pattern": {"target_modules": ".*q_proj"},
    "endless exclude_modules": {"exclude_modules": _ENDLESS},
    "endless modules_to_save": {"modules_to_save": [_ENDLESS]},
    "endless layers_pattern": {"layers_pattern": _ENDLESS, "layers_to_transform": [0]},
    "endless rank_pattern": {"rank_pattern": {_ENDLESS: 2}},
    "endless alpha_pattern": {"alpha_pattern": {_ENDLESS: 2}},
    "endless target_parameters": {"target_parameters": [_ENDLESS]},
    "100,000 targets": {"target_modules": [f"m{i}" for i in range(10**5)]},
    "targets as a number": {"target_modules": 5},
    "targets as numbers": {"target_modules": [5, None]},
    "rank 2e7": {"r": 20_000_000},
    "rank 1e15": {"r": 10**15},
    "rank 0": {"r": 0},
    "rank -1": {"r": -1},
    "rank as text": {"r": "2"},
    "rank 2.5": {"r": 2.5},
    "rank 2e7 by pattern": {"rank_pattern": {"q_proj": 20_000_000}},
    "rank_pattern as a list": {"rank_pattern": ["q_proj"]},
    "alpha NaN": {"lora_alpha": float("nan")},
    "alpha infinite": {"lora_alpha": float("inf")},
    "alpha as text": {"lora_alpha": "1"},
    "dropout 7": {"lora_dropout": 7},
    "bias as a list": {"bias": ["all"]},
    "base 5": {"base_model_name_or_path": 5},
    "base as a list": {"base_model_name_or_path": ["tiny"]},
    "base that is a device": {"base_model_name_or_path": "/dev/zero"},
    "base of 1 MB": {"base_model_name_or_path": "a" * 10**6},
    "base with NUL": {"base_model_name_or_path": "/tmp/\0"},
    "base upwards": {"base_model_name_or_path": "../../../.."},
    "modules of Megatron": {
        "megatron_config": {"a": 1},
        "megatron_core": "this",
    },
    "code by auto_mapping": {
        "peft_type": "PREFIX",
        "auto_mapping": {"base_model_class": "x", "parent_library": "this"},
    },
    "another kind": {"peft_type": "IA3"},
    "kind as a list": {"peft_type": ["LORA"]},
    "replicated layers": {"layer_replication": [[0, 4]] * 1000},
    "a start that changes the base": {"init_lora_weights": "pissa_niter_1000000000"},
    "a start as a list": {"init_lora_weights": [1]},
    "an unknown setting": {"use_something_new": True},
    "all tokens trainable": {"trainable_token_indices": list(range(10**5))},
}


def cases() -> list[Case]:
    found = [_case(name, change) for name, change in CHANGES.items()]
    found += [
        Case("adapters", "deep settings", _deep, "adapter_config.json"),
        Case("adapters", "settings as a list", _list, "adapter_config.json"),
        Case("adapters", "only a pickle", _pickle, f"checkpoint-{STEP}"),
        Case("adapters", "NaN", _nan, f"checkpoint-{STEP}"),
        Case("adapters", "its own base", _own_base, f"checkpoint-{STEP}"),
        Case("adapters", "a shard and an index", _index, f"checkpoint-{STEP}"),
    ]
    return found


def _case(name: str, change: dict[str, Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("lora") / f"checkpoint-{STEP}"
        edit(path / "adapter_config.json", **change)
        return measure(shop, path)

    return Case("adapters", name, make, f"checkpoint-{STEP}")


def _deep(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    put(path / "adapter_config.json", deep(50_000))
    return measure(shop, path)


def _list(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    put(path / "adapter_config.json", "[]")
    return measure(shop, path)


def _pickle(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    (path / "adapter_model.safetensors").unlink()
    torch.save({"a": Pickled(shop.canary)}, path / "adapter_model.bin")
    return measure(shop, path)


def _nan(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    file = path / "adapter_model.safetensors"
    weights = {name: w.clone() for name, w in load_file(file).items()}
    next(iter(weights.values()))[0, 0] = torch.nan
    file.unlink()
    save_file(weights, file, metadata={"format": "pt"})
    return measure(shop, path)


def _own_base(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    edit(path / "adapter_config.json", base_model_name_or_path=str(path))
    return measure(shop, path)


def _index(shop: Workshop) -> list[str]:
    path = shop.copy("lora") / f"checkpoint-{STEP}"
    (path / "adapter_model.safetensors").rename(path / "a.safetensors")
    index = '{"weight_map": {"a": "a.safetensors"}}'
    put(path / "adapter_model.safetensors.index.json", index)
    return measure(shop, path)
