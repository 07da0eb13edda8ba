"""Hostile recorded updates."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hostile.case import Case, Workshop, deep, measure, put, sparse
from benchmarks.hostile.configs import checkpoint
from benchmarks.hostile.world import STEP, update
from entrometer.runs import UpdateBatch, update_path, write_update

_KEY = b"entrometer.update"


def _column(name: str, value: float) -> Callable[[UpdateBatch], UpdateBatch]:
    def change(batch: UpdateBatch) -> UpdateBatch:
        rows = [row.copy() for row in getattr(batch, name)]
        rows[0][0] = value
        changed: dict[str, Any] = {name: tuple(rows)}
        return replace(batch, **changed)

    return change


def _setting(**changes: Any) -> Callable[[UpdateBatch], UpdateBatch]:
    return lambda batch: replace(batch, settings=replace(batch.settings, **changes))


BATCHES: dict[str, Callable[[UpdateBatch], UpdateBatch]] = {
    "token id 1e6": _column("response_tokens", 10**6),
    "prompt token id 1e6": _column("prompt_tokens", 10**6),
    "token id -1": _column("response_tokens", -1),
    "token id of the vocabulary's size": _column("response_tokens", 107),
    "NaN advantage": _column("advantage", np.nan),
    "infinite advantage": _column("advantage", np.inf),
    "NaN log-probability": _column("S", np.nan),
    "NaN old log-probability": _column("S_old", np.nan),
    "infinite entropy": _column("H", np.inf),
    "step 0": _setting(step=0),
    "step as text": _setting(step="4"),
    "temperature NaN": _setting(temperature=float("nan")),
    "temperature as text": _setting(temperature="1"),
    "temperature null": _setting(temperature=None),
    "length limit -1": _setting(max_tokens=-1),
    "reward names as numbers": _setting(rewards=(5,)),
    "two weights for a reward": _setting(reward_weights=(1.0, 1.0)),
    "weight NaN": _setting(reward_weights=(float("nan"),)),
}


def cases() -> list[Case]:
    found = [_batch(name, change) for name, change in BATCHES.items()]
    found += [_file(name, write) for name, write in FILES.items()]
    return found


def _case(name: str, write: Callable[[Path], Any], names: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        file = update_path(path.parent, STEP + 1)
        file.unlink()
        write(file)
        return measure(shop, path, "recorded")

    return Case("updates", name, make, names)


def _batch(name: str, change: Callable[[UpdateBatch], UpdateBatch]) -> Case:
    ids = "token id" in name and "-1" not in name
    return _case(
        name,
        lambda file: write_update(file, change(update())),
        "recorded" if ids else "step-0000000",
    )


def _file(name: str, write: Callable[[Path], Any]) -> Case:
    return _case(name, write, f"step-0000000{STEP + 1}")


def _sound() -> pa.Table:
    path = Path(f"/tmp/hostile-update-{np.random.default_rng().integers(2**60)}")
    try:
        write_update(path, update())
        return pq.read_table(path)
    finally:
        path.unlink(missing_ok=True)


def _table(
    change: Callable[[pa.Table], pa.Table], **options: Any
) -> Callable[[Path], Any]:
    return lambda file: pq.write_table(change(_sound()), file)


def _long_lists(file: Path) -> None:
    """A row with a list of 3e8 equal tokens, in some kilobytes."""
    table = _sound()
    size = 3 * 10**7
    zeros = np.zeros(size, np.int32)
    lists = pa.ListArray.from_arrays(pa.array([0, size], pa.int32()), zeros)
    field = table.schema.field("response_tokens")
    column = pa.chunked_array([lists.cast(field.type)] * 10)
    many = pa.table({"response_tokens": column}, schema=pa.schema([field]))
    pq.write_table(many, file, compression="zstd")


def _rows(count: int) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.take(np.zeros(count, np.int64))


def _about(text: bytes) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.replace_schema_metadata({_KEY: text})


def _flipped(file: Path) -> None:
    write_update(file, update())
    raw = bytearray(file.read_bytes())
    for place in range(len(raw) // 4, len(raw) // 4 + 40):
        raw[place] ^= 0x55
    put(file, bytes(raw))


FILES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda file: put(file, b""),
    "text": lambda file: put(file, "hello" * 100),
    "flipped bytes": _flipped,
    "lists of 3e8 tokens": _long_lists,
    "2e6 equal rows": _table(_rows(2_000_000)),
    "no rows": _table(lambda table: table.slice(0, 0)),
    "a column missing": _table(lambda table: table.drop_columns(["H"])),
    "a column of text": _table(
        lambda t: t.set_column(0, "row", pa.array(["a"] * len(t)))
    ),
    "no metadata": _table(lambda table: table.replace_schema_metadata(None)),
    "metadata that is no JSON": _table(_about(b"{")),
    "metadata that is a list": _table(_about(b"[]")),
    "deep metadata": _table(_about(deep(50_000).encode())),
    "settings missing": _table(_about(b'{"format": 1}')),
    "settings a number": _table(_about(b'{"format": 1, "settings": 5}')),
    "settings unknown": _table(
        _about(json.dumps({"format": 1, "settings": {"a": 1}}).encode())
    ),
    "another format": _table(_about(b'{"format": 99}')),
    "dictionary columns": _table(
        lambda t: t.set_column(0, "row", t["row"].dictionary_encode())
    ),
    "1 TiB of zeros": lambda file: sparse(file, 2**40),
}
