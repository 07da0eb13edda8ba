"""Hostile runs: tables and words of a finished measurement, and a training's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hostile.case import Case, Workshop, deep, edit, put, sparse
from entrometer.runs import seal

Change = Callable[[pa.Table], pa.Table]


def _column(name: str, value: Any) -> Change:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        filled = pa.array([value] * len(table), field.type)
        return table.set_column(place, field, filled)

    return change


TABLES: dict[str, Change] = {
    "2e6 equal rows": lambda t: t.take(np.zeros(2 * 10**6, np.int64)),
    "a column missing": lambda t: t.drop_columns([t.column_names[0]]),
    "a column of another type": lambda t: t.set_column(
        0, t.column_names[0], pa.array([1] * len(t))
    ),
    "no metadata": lambda t: t.replace_schema_metadata(None),
    "texts of 1 GB": lambda t: _column("checkpoint", "a" * 10**6)(
        t.take(np.zeros(1000, np.int64))
    ),
}
WORDS: dict[str, Any] = {
    "title as a number": {"title": 5},
    "sentences as text": {"sentences": "a"},
    "sentences of numbers": {"sentences": [1]},
    "warnings null": {"warnings": None},
}
RAW = {"deep": deep(50_000), "a list": "[]", "cut": "{", "empty": ""}
FILES = ("summary.json", "config.json", "about.json", "manifest.json")
METRICS: dict[str, Callable[[], pa.Table]] = {
    "no steps": lambda: pa.table({"loss": [1.0]}),
    "text": lambda: pa.table({"step": ["a"]}),
    "lists": lambda: pa.table({"step": [[1.0]]}),
    "5e8 rows": lambda: pa.table(
        {"step": pa.chunked_array([np.zeros(5 * 10**7)] * 10)}
    ),
}


def cases() -> list[Case]:
    found = [
        _table(name, change, sealed)
        for name, change in TABLES.items()
        for sealed in ("sealed", "unsealed")
    ]
    found += [_words(name, change) for name, change in WORDS.items()]
    found += [_raw(file, name, text) for file in FILES for name, text in RAW.items()]
    found += [_metrics(name, table) for name, table in METRICS.items()]
    found += [
        _file("a table of text", lambda path: put(path, "hello" * 99)),
        _file("a table cut", lambda path: put(path, path.read_bytes()[:-9])),
        _file("1 TiB of zeros", lambda path: sparse(path, 2**40)),
        _file("a table that is gone", Path.unlink),
        Case("reports", "a title of 40 MB", _long_title, "summary.json"),
    ]
    return found


def _run(shop: Workshop) -> Path:
    return shop.copy("measured") / "run"


def _reseal(path: Path, sealed: str) -> None:
    """What somebody does who edits a run: the manifest fits, or there is none."""
    (path / "manifest.json").unlink()
    if sealed == "sealed":
        seal(path, about={"kind": "measure"})


def _report(path: Path) -> list[str]:
    return ["report", str(path), "--out", "report.html"]


def _table(name: str, change: Change, sealed: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = _run(shop)
        file = path / "results" / "terms.parquet"
        table = change(pq.read_table(file))
        file.unlink()
        pq.write_table(table, file, compression="zstd")
        _reseal(path, sealed)
        return _report(path)

    return Case("results", f"{name}, {sealed}", make, "terms.parquet")


def _file(name: str, write: Callable[[Path], Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = _run(shop)
        write(path / "results" / "terms.parquet")
        (path / "manifest.json").unlink()
        return _report(path)

    return Case("results", name, make, "terms.parquet")


def _words(name: str, change: dict[str, Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = _run(shop)
        edit(path / "summary.json", **change)
        _reseal(path, "sealed")
        return _report(path)

    return Case("reports", name, make, "summary.json")


def _raw(file: str, name: str, text: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = _run(shop)
        put(path / file, text)
        if file != "manifest.json":
            _reseal(path, "sealed")
        return _report(path)

    return Case("reports", f"{file}: {name}", make, file)


def _metrics(name: str, table: Callable[[], pa.Table]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("trained") / "run"
        (path / "metrics.parquet").unlink()
        pq.write_table(table(), path / "metrics.parquet", compression="zstd")
        return _report(path)

    return Case("reports", f"metrics: {name}", make, "trained/run")


def _long_title(shop: Workshop) -> list[str]:
    path = _run(shop)
    words = {"title": "a" * (40 * 2**20), "sentences": [], "warnings": []}
    put(path / "summary.json", json.dumps(words))
    _reseal(path, "sealed")
    return _report(path)
