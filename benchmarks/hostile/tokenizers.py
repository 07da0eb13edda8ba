"""Hostile tokenizers of a checkpoint."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.hostile.case import Case, Workshop, deep, edit, measure, put, sparse
from benchmarks.hostile.configs import checkpoint
from benchmarks.hostile.world import STEP

Change = Callable[[dict[str, Any]], Any]


def _model(**changes: Any) -> Change:
    return lambda content: content["model"].update(changes)


CHANGES: dict[str, Change] = {
    "no model": lambda c: c.pop("model"),
    "model a list": lambda c: c.update(model=[]),
    "an unknown model": _model(type="Evil"),
    "a vocabulary of text": _model(vocab={"a": "b"}),
    "a vocabulary that is a list": _model(vocab=[1]),
    "ids of 2^40": _model(vocab={"a": 2**40}),
    "ids beyond the model's": lambda c: c["model"].update(
        vocab={token: 10**6 + i for i, token in enumerate(c["model"]["vocab"])}
    ),
    "a split that is no pattern": lambda c: c.update(
        pre_tokenizer={
            "type": "Split",
            "pattern": {"Regex": "((((" * 100},
            "behavior": "Isolated",
            "invert": False,
        }
    ),
    "a normalizer from nothing": lambda c: c.update(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    ),
    "tokens added as numbers": lambda c: c.update(added_tokens=[1, 2]),
    "a post-processor of nothing": lambda c: c.update(post_processor={"type": "x"}),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "EOS as a number": {"eos_token": 5},
    "EOS as a list": {"eos_token": ["a"]},
    "extra tokens as a number": {"extra_special_tokens": 5},
    "added tokens as a list": {"added_tokens_decoder": [1]},
    "added tokens with text as id": {"added_tokens_decoder": {"x": {"content": "y"}}},
    "a class as a list": {"tokenizer_class": ["x"]},
}


def cases() -> list[Case]:
    found = [_case(name, change) for name, change in CHANGES.items()]
    found += [_setting(name, change) for name, change in SETTINGS.items()]
    raw = {"empty": "", "cut": "{", "deep": deep(50_000), "a list": "[]"}
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        found += [_raw(name, file, text) for name, text in raw.items()]
    found.append(Case("tokenizers", "1 TiB of zeros", _sparse, "tokenizer.json"))
    return found


def _case(name: str, change: Change) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        content = json.loads((path / "tokenizer.json").read_text())
        change(content)
        put(path / "tokenizer.json", json.dumps(content))
        return measure(shop, path)

    # A prompt whose tokens the model does not have says that, not the file.
    beyond = name == "ids beyond the model's"
    return Case("tokenizers", name, make, "tokenizer" if beyond else "checkpoint-3")


def _setting(name: str, change: dict[str, Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        edit(path / "tokenizer_config.json", **change)
        return measure(shop, path)

    return Case("tokenizers", name, make, f"checkpoint-{STEP}")


def _raw(name: str, file: str, text: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path: Path = checkpoint(shop)
        put(path / file, text)
        return measure(shop, path)

    return Case("tokenizers", f"{file}: {name}", make, f"checkpoint-{STEP}")


def _sparse(shop: Workshop) -> list[str]:
    path = checkpoint(shop)
    sparse(path / "tokenizer.json", 2**40)
    return measure(shop, path)
