"""The directory of an experiment's results: settings, tables, words, and a seal."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from entrometer.experiments.carry_out import Stages
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Subject
from entrometer.runs import seal, write_json
from entrometer.runs.about import about_machine
from entrometer.runs.locations import relative_path, relative_source
from entrometer.runs.rows import write_rows


def begin(config: ExperimentConfig, run: Path, store: Path | None) -> Path:
    """Make the directory, save the settings, and say where passes are kept."""
    store = store or run / "passes"
    for directory in (store, run):
        directory.mkdir(parents=True, exist_ok=True)
    sources = {
        "checkpoints": [relative_path(path, run) for path in config.checkpoints],
        "policy": config.policy and relative_source(config.policy, run),
    }
    write_json(run / "config.json", asdict(config) | sources)
    return store


def finish(
    run: Path,
    *,
    kind: str,
    tables: Mapping[str, type],
    found: object,
    summary: dict[str, Any],
    subjects: Mapping[str, Subject],
    stages: Stages,
) -> None:
    """Write what was found, in tables and in words, and seal the directory.

    Args:
        run: The directory.
        kind: What the manifest calls it.
        tables: Classes of rows by the name of their table.
        found: Holds the rows of each table under its name.
        summary: Title, sentences and warnings.
        subjects: The checkpoints by name.
        stages: Passes and seconds of each kind.
    """
    results = run / "results"
    results.mkdir(exist_ok=True)
    for name, row in tables.items():
        write_rows(results / f"{name}.parquet", row, getattr(found, name))
    write_json(run / "summary.json", summary)
    inputs = {name: _input(subject, run) for name, subject in subjects.items()}
    about = {"inputs": inputs, "stages": stages, **about_machine()}
    write_json(run / "about.json", about)
    seal(run, about={"kind": kind}, without=("passes",))


def _input(subject: Subject, run: Path) -> dict[str, Any]:
    return {f.name: getattr(subject, f.name) for f in fields(subject)} | {
        "advanced": subject.advanced and subject.advanced.key,
        "path": relative_path(subject.path, run),
        "base": subject.base and relative_source(subject.base, run),
    }
