"""The directory of an experiment's results: settings, tables, words, and a seal."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from entrometer.experiments.carry_out import Stages
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.inputs import inputs, require_same, unsealed_inputs
from entrometer.experiments.requests import Subject
from entrometer.runs import seal, verify, write_json
from entrometer.runs.finished import unsealed
from entrometer.runs.locations import relative_path, relative_source
from entrometer.runs.rows import write_rows
from entrometer.runs.settings import (
    CONFIG,
    about_machine,
    as_json,
    save_settings,
    sealed_settings,
)


def begin(config: ExperimentConfig, run: Path, store: Path | None, kind: str) -> Path:
    """Save the settings and the inputs' content keys, and say where passes are kept.

    A run that was begun before goes on if its checkpoints and its problems are the
    same, and if nobody edited its config.json. Until `finish`, its manifest says that
    the run is not finished.
    """
    store = store or run / "passes"
    about = {"kind": kind, "finished": False, **inputs(config)}
    before = sealed_settings(run)
    if before is not None:
        require_same(run, before, {**about, "settings": as_json(asdict(config))})
    for directory in (store, run):
        directory.mkdir(parents=True, exist_ok=True)
    # Paths as seen from the run: both may be moved together.
    sources = {
        "checkpoints": [relative_path(path, run) for path in config.checkpoints],
        "policy": config.policy and relative_source(config.policy, run),
    }
    save_settings(run, asdict(config) | sources, about)
    return store


def finish(
    run: Path,
    config: ExperimentConfig,
    *,
    tables: Mapping[str, type],
    found: object,
    summary: dict[str, Any],
    subjects: Mapping[str, Subject],
    stages: Stages,
) -> None:
    """Write what was found, in tables and in words, and seal the directory.

    Args:
        run: The directory, as `begin` left it.
        config: What was measured.
        tables: Classes of rows by the name of their table.
        found: Holds the rows of each table under its name.
        summary: Title, sentences and warnings.
        subjects: The checkpoints by name.
        stages: Passes and seconds of each kind.
    """
    # Settings that were edited meanwhile are not those of these results.
    started = verify(run, names=[CONFIG])
    without = unsealed_inputs(config)
    summary = {
        **summary,
        "warnings": [*summary["warnings"], *map(unsealed, without)],
        "unsealed": without,
    }
    results = run / "results"
    results.mkdir(exist_ok=True)
    for name, row in tables.items():
        write_rows(results / f"{name}.parquet", row, getattr(found, name))
    write_json(run / "summary.json", summary)
    inputs = {name: _input(subject, run) for name, subject in subjects.items()}
    about = {"inputs": inputs, "stages": stages, **about_machine()}
    write_json(run / "about.json", about)
    seal(run, about={**started, "finished": True}, without=("passes",))


def _input(subject: Subject, run: Path) -> dict[str, Any]:
    return {f.name: getattr(subject, f.name) for f in fields(subject)} | {
        "advanced": subject.advanced and subject.advanced.key,
        "path": relative_path(subject.path, run),
        "base": subject.base and relative_source(subject.base, run),
    }
