"""Finished runs, known by what is in them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.report.style import LOOKS
from entrometer.runs import Metrics, verified
from entrometer.runs.finished import (
    evaluation_metrics,
    is_measurement,
    read_summary,
    training_metrics,
    unsealed,
    unsealed_files,
)
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.influence import InfluenceTables
from entrometer.runs.tables.kernel import KernelTables
from entrometer.runs.tables.measure import MeasureTables
from entrometer.runs.untrusted import read_json


@dataclass(frozen=True)
class FinishedRun:
    """What every measurement says of itself."""

    name: str
    title: str
    sentences: tuple[str, ...]
    """What was measured."""
    warnings: tuple[str, ...]
    config: dict[str, Any]
    about: dict[str, Any]


@dataclass(frozen=True)
class MeasurementRun(FinishedRun):
    """A measurement of entropy changes."""

    tables: MeasureTables


@dataclass(frozen=True)
class InfluenceRun(FinishedRun):
    """A measurement of what each token of an update does."""

    tables: InfluenceTables


@dataclass(frozen=True)
class KernelRun(FinishedRun):
    """A measurement of the Fisher kernel."""

    tables: KernelTables


@dataclass(frozen=True)
class ComparisonRun(FinishedRun):
    """A comparison of interventions."""

    tables: CompareTables


@dataclass(frozen=True)
class TrainingRun:
    """A training, and what an evaluation of its checkpoints found."""

    name: str
    metrics: Metrics
    evaluation: Metrics | None
    config: dict[str, Any]
    warnings: tuple[str, ...] = ()


Measured = MeasurementRun | InfluenceRun | KernelRun | ComparisonRun
Run = Measured | TrainingRun
_TABLES: dict[str, type] = {
    "entropy change": MeasureTables,
    "influence": InfluenceTables,
    "kernel": KernelTables,
    "comparison": CompareTables,
}
"""Tables of a measurement by the kind that its manifest tells."""


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read each run, under a name of its own."""
    if not 1 <= len(paths) <= len(LOOKS):
        raise InvalidValue(
            f"expected 1 to {len(LOOKS)} runs, as many as a figure can tell apart, got "
            f"{len(paths)}; compare fewer at a time"
        )
    names = [path.resolve().name for path in paths]
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [
        _read(path, name if name not in twice else f"{name} ({number})")
        for number, (path, name) in enumerate(zip(paths, names, strict=True), start=1)
    ]


def _read(path: Path, name: str) -> Run:
    return _finished(path, name) if is_measurement(path) else _training(path, name)


def _finished(path: Path, name: str) -> Measured:
    kind = _kind(path)
    missing = [n for n in table_classes(_TABLES[kind]) if not _table(path, n).is_file()]
    if missing:
        raise InvalidValue(
            f"{path}: expected a finished measurement, got one without "
            f"results/{missing[0]}.parquet; finish it with --resume"
        )
    summary = read_summary(path)
    said: dict[str, Any] = {
        "name": name,
        "title": summary["title"],
        "sentences": tuple(summary["sentences"]),
        "warnings": tuple(summary["warnings"]),
        "config": _json(path / "config.json"),
        "about": _json(path / "about.json"),
    }
    if kind == "influence":
        return InfluenceRun(**said, tables=read_tables(path, InfluenceTables))
    if kind == "kernel":
        return KernelRun(**said, tables=read_tables(path, KernelTables))
    if kind == "comparison":
        return ComparisonRun(**said, tables=read_tables(path, CompareTables))
    return MeasurementRun(**said, tables=read_tables(path, MeasureTables))


def _kind(path: Path) -> str:
    """What the manifest says, or that of which there are the most tables."""
    kind = (verified(path, names=()) or {}).get("kind")
    if isinstance(kind, str) and kind in _TABLES:
        return kind
    found = {
        kind: sum(_table(path, n).is_file() for n in table_classes(tables))
        for kind, tables in _TABLES.items()
    }
    return max(found, key=lambda kind: found[kind])


def _table(path: Path, name: str) -> Path:
    return path / "results" / f"{name}.parquet"


def _training(path: Path, name: str) -> TrainingRun:
    metrics = training_metrics(path)
    if "step" not in metrics:
        raise InvalidValue(
            f"{path}: expected metrics by step, got no column `step`; train it first"
        )
    warnings = tuple(map(unsealed, unsealed_files(path)))
    config = _json(path / "config.json")
    return TrainingRun(name, metrics, evaluation_metrics(path), config, warnings)


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}
