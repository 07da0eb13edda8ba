"""Hostile dumps of other frameworks' updates: slime's tensors, TRL's completions."""

import os
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.hostile.case import Case, Pickled, Workshop, put, sparse
from benchmarks.hostile.world import STEP

Change = Callable[[dict[str, Any]], Any]
SLIME = f"slime/train_data/{STEP}.pt"
TRL = f"trl/completions/completions_{STEP:05d}.parquet"


def _column(name: str, value: Any) -> Change:
    return lambda content: content["samples"][0].__setitem__(name, value)


def _top(**entries: Any) -> Change:
    return lambda content: content.update(entries)


def _looped(content: dict[str, Any]) -> None:
    content["samples"] = samples = [content["samples"]]
    samples.append(samples)


CONTENTS: dict[str, Change] = {
    "no samples": lambda c: c.pop("samples"),
    "samples 5": _top(samples=5),
    "samples of numbers": _top(samples=[5]),
    "samples that hold themselves": _looped,
    "another format": _top(format_version=3),
    "rollout as text": _top(rollout_id="3"),
    "rollout negative": _top(rollout_id=-5),
    "rollout of 1e30": _top(rollout_id=10**30),
    "no shards": _top(dp_shards=[]),
    "shards 5": _top(dp_shards=5),
    "several steps": _top(dp_shards=[{"global_batch_sizes": [1, 1]}]),
    "too few rewards": _top(raw_reward=[]),
    "rewards as text": _top(raw_reward=["a", "b"]),
    "no advantages": lambda c: c["samples"][0].pop("advantages"),
    "tokens as a list": _column("tokens", [5, 6, 7]),
    "a token of 2^40": _column("tokens", torch.tensor([5, 6, 2**40])),
    "a token of -1": _column("tokens", torch.tensor([5, 6, -1])),
    "tokens of 8 TB": _column(
        "tokens", torch.ones(1, dtype=torch.int64).expand(10**12)
    ),
    "a response without a prompt": _column("response_lengths", 3),
    "a length of -1": _column("response_lengths", -1),
    "a mask of sevens": _column("loss_masks", torch.tensor([7, 7])),
    "entropies of 4 TB": _column("entropy", torch.ones(1).expand(10**12)),
    "entropies of one response": lambda c: c["samples"][0].pop("entropy"),
    "entropies on no device": _column("entropy", torch.ones(2, device="meta")),
    "log-probabilities NaN": _column("log_probs", torch.full((2,), torch.nan)),
    "advantages infinite": _column("advantages", torch.full((2,), torch.inf)),
    "a place of -1": _column("rollout_position", -1),
    "a pickle": lambda c: None,
}


def cases() -> list[Case]:
    found = [_slime(name, change) for name, change in CONTENTS.items()]
    found += [
        Case("slime", "1 TiB of zeros", _large(SLIME), f"{STEP}.pt"),
        Case("slime", "a pipe", _pipe(SLIME), f"{STEP}.pt"),
        Case("trl", "whole completions", _completions(None), "em.watch"),
        Case("trl", "a damaged footer", _completions(b"PAR1 5 PAR1"), "completions_"),
        Case("trl", "an empty file", _completions(b""), "completions_"),
        Case("trl", "1 TiB of zeros", _large(TRL), "completions_"),
        Case("trl", "a pipe", _pipe(TRL), "completions_"),
        Case("trl", "a link to a device", _device, "completions_"),
    ]
    return found


def _command(shop: Workshop, file: str) -> list[str]:
    shop.copy(file.split("/")[0])
    return ["import", str(shop.folder / file), "imported"]


def _slime(name: str, change: Change) -> Case:
    def make(shop: Workshop) -> list[str]:
        arguments = _command(shop, SLIME)
        file = shop.folder / SLIME
        content = torch.load(file, weights_only=True)
        change(content)
        if name == "a pickle":
            content["samples"] = [Pickled(shop.canary)]
        file.unlink()
        torch.save(content, file)
        return arguments

    return Case("slime", name, make, f"{STEP}.pt")


def _large(file: str) -> Callable[[Workshop], list[str]]:
    def make(shop: Workshop) -> list[str]:
        arguments = _command(shop, file)
        sparse(shop.folder / file, 2**40)
        return arguments

    return make


def _pipe(file: str) -> Callable[[Workshop], list[str]]:
    def make(shop: Workshop) -> list[str]:
        arguments = _command(shop, file)
        (shop.folder / file).unlink()
        os.mkfifo(shop.folder / file)
        return arguments

    return make


def _completions(content: bytes | None) -> Callable[[Workshop], list[str]]:
    def make(shop: Workshop) -> list[str]:
        arguments = _command(shop, TRL)
        if content is not None:
            put(shop.folder / TRL, content)
        return arguments

    return make


def _device(shop: Workshop) -> list[str]:
    arguments = _command(shop, TRL)
    (shop.folder / TRL).unlink()
    (shop.folder / TRL).symlink_to("/dev/zero")
    return arguments
