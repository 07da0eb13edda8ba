"""Hostile weights: indices that lead elsewhere, headers that lie, NaN."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.hostile.case import Case, Pickled, Workshop, deep, measure, put, sparse
from benchmarks.hostile.configs import checkpoint
from benchmarks.hostile.world import STEP

INDEX = "model.safetensors.index.json"

MAPS: dict[str, Any] = {
    "ints": {"model.norm.weight": 5},
    "a list": ["a.safetensors"],
    "a number": 7,
    "null": None,
    "nothing": {},
    "lists of names": {"model.norm.weight": ["a.safetensors"]},
    "a path upwards": {"model.norm.weight": "../../out/a.safetensors"},
    "a path downwards": {"model.norm.weight": "sub/a.safetensors"},
    "an absolute path": {"model.norm.weight": "/etc/passwd.safetensors"},
    "a dot": {"model.norm.weight": "."},
    "two dots": {"model.norm.weight": ".."},
    "an empty name": {"model.norm.weight": ""},
    "a NUL in the name": {"model.norm.weight": "a\0.safetensors"},
    "a very long name": {"model.norm.weight": "a" * 5000 + ".safetensors"},
    "an escape sequence": {"model.norm.weight": "\x1b[31m.safetensors"},
    "a backslash": {"model.norm.weight": "..\\a.safetensors"},
    "a pickle": {"model.norm.weight": "pytorch_model.bin"},
    "a missing shard": {"model.norm.weight": "c.safetensors"},
    "one of two shards": {"model.norm.weight": "a.safetensors"},
}

HEADERS: dict[str, bytes] = {
    "empty": b"",
    "a length alone": struct.pack("<Q", 8),
    "a header of 2^60 bytes": struct.pack("<Q", 2**60),
    "a header of 90 MB that is not there": struct.pack("<Q", 90_000_000) + b"{}",
    "a header that is no JSON": struct.pack("<Q", 8) + b"{{{{{{{{",
    "a deep header": (lambda t: struct.pack("<Q", len(t)) + t)(deep(10_000).encode()),
}


def _header(entries: dict[str, Any], body: bytes) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + body


def _entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HEADERS |= {
    "a tensor of 2^50 bytes": _header({"a": _entry("F32", [2**48], 0, 2**50)}, b"abcd"),
    "offsets beyond the end": _header({"a": _entry("F32", [4], 0, 16)}, b"abcd"),
    "offsets that overlap": _header(
        {"a": _entry("F32", [1], 0, 4), "b": _entry("F32", [1], 0, 4)}, b"abcd"
    ),
    "shapes that overflow": _header(
        {"a": _entry("F32", [2**32, 2**32, 2**32], 0, 4)}, b"abcd"
    ),
    "an unknown dtype": _header({"a": _entry("X9", [1], 0, 4)}, b"abcd"),
}


def cases() -> list[Case]:
    found = [_index(name, {"weight_map": value}) for name, value in MAPS.items()]
    found += [
        _index("no map", {}),
        _index("a list as the index", [1]),
        _index("a deep index", None),
    ]
    found += [_file(name, content) for name, content in HEADERS.items()]
    found += [_tensors(name, change) for name, change in TENSORS.items()]
    found += [
        Case("weights", "only a pickle", _pickle, "pytorch_model.bin"),
        Case("weights", "1 TiB of zeros", _sparse, "model.safetensors"),
        Case("indices", "a decoy inside, weights outside", _decoy, INDEX),
    ]
    return found


def _index(name: str, content: Any) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("sharded") / f"checkpoint-{STEP}"
        put(path / INDEX, deep(5000) if content is None else json.dumps(content))
        return measure(shop, path)

    # A missing shard is named, not the index; a map that leaves a shard out makes the
    # model incomplete, and then the directory is named.
    names = {
        "a missing shard": "c.safetensors",
        "one of two shards": f"checkpoint-{STEP}",
    }
    return Case("indices", name, make, names.get(name, INDEX))


def _file(name: str, content: bytes) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        put(path / "model.safetensors", content)
        return measure(shop, path)

    return Case("weights", name, make, "model.safetensors")


Tensors = dict[str, torch.Tensor]


def _nan(weights: Tensors) -> None:
    weights["model.norm.weight"][0] = torch.nan


def _infinite(weights: Tensors) -> None:
    weights["model.norm.weight"][0] = torch.inf


TENSORS: dict[str, Callable[[Tensors], Any]] = {
    "NaN": _nan,
    "infinity": _infinite,
    "one missing": lambda w: w.pop("model.norm.weight"),
    "one more": lambda w: w.update(stray=torch.ones(1)),
    "one of another shape": lambda w: w.update({"model.norm.weight": torch.ones(7)}),
    "100,000 more": lambda w: w.update({f"s{i}": torch.ones(1) for i in range(10**5)}),
}


def _tensors(name: str, change: Callable[[Tensors], Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        file = path / "model.safetensors"
        weights = {k: v.clone() for k, v in load_file(file).items()}
        change(weights)
        file.unlink()
        save_file(weights, file, metadata={"format": "pt"})
        return measure(shop, path)

    return Case("weights", name, make, f"checkpoint-{STEP}")


def _pickle(shop: Workshop) -> list[str]:
    path = checkpoint(shop)
    (path / "model.safetensors").unlink()
    torch.save({"a": Pickled(shop.canary)}, path / "pytorch_model.bin")
    return measure(shop, path)


def _sparse(shop: Workshop) -> list[str]:
    path = checkpoint(shop)
    sparse(path / "model.safetensors", 2**40)
    return measure(shop, path)


def _decoy(shop: Workshop) -> list[str]:
    path: Path = shop.copy("sharded") / f"checkpoint-{STEP}"
    outside = shop.folder / "out"
    outside.mkdir()
    for file in ("a.safetensors", "b.safetensors"):
        put(outside / file, (path / file).read_bytes())
    index = json.loads((path / INDEX).read_text())["weight_map"]
    moved = {name: f"../../out/{file}" for name, file in index.items()}
    put(path / INDEX, json.dumps({"metadata": {}, "weight_map": moved}))
    return measure(shop, path)
