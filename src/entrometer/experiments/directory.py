"""The directory of an experiment's results: settings, tables, words, and a seal."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.experiments.config import ExperimentConfig
from entrometer.runs import atomic_write, seal
from entrometer.runs.about import about_machine
from entrometer.runs.rows import write_rows


def begin(config: ExperimentConfig, run: Path, store: Path | None) -> Path:
    """Make the directory, save the settings, and say where passes are kept."""
    store = store or run / "passes"
    for directory in (store, run):
        directory.mkdir(parents=True, exist_ok=True)
    _write_json(run / "config.json", asdict(config))
    return store


def write_tables(run: Path, tables: Mapping[str, type], found: object) -> None:
    """Write each table that the results hold under its name."""
    results = run / "results"
    results.mkdir(exist_ok=True)
    for name, kind in tables.items():
        write_rows(results / f"{name}.parquet", kind, getattr(found, name))


def finish(
    run: Path, *, kind: str, summary: dict[str, Any], about: dict[str, Any]
) -> None:
    """Write what was found in words and what it was made with; seal it last."""
    _write_json(run / "summary.json", summary)
    _write_json(run / "about.json", {**about, **about_machine()})
    seal(run, about={"kind": kind}, without=("passes",))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")
