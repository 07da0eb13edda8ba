"""Read run directories, each by the kind that its manifest names."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.report.kinds import FinishedRun, RunKind
from entrometer.report.style import LOOKS
from entrometer.runs import Metrics, verified
from entrometer.runs.finished import (
    evaluation_metrics,
    has_bare_tables,
    is_measurement,
    is_training,
    read_summary,
    training_metrics,
    unsealed,
    unsealed_files,
)
from entrometer.runs.rows import read_rows, read_tables, table_classes
from entrometer.runs.untrusted import read_json

Kinds = Mapping[str, RunKind[Any]]
"""Kinds of runs by the name that a run's manifest gives."""
TRAINING = "training"


@dataclass(frozen=True)
class TrainingTables:
    """Metrics of a training by step, and the evaluation of its checkpoints."""

    metrics: Metrics
    evaluation: Metrics | None


TrainingRun = FinishedRun[TrainingTables]


def read_runs(paths: Sequence[Path], kinds: Kinds) -> list[FinishedRun[Any]]:
    """Return each run as read from its directory, with a name that no other has."""
    if not 1 <= len(paths) <= len(LOOKS):
        raise InvalidValue(
            f"expected 1 to {len(LOOKS)} runs, as many as a figure can tell apart, got "
            f"{len(paths)}; compare fewer at a time"
        )
    names = [path.resolve().name for path in paths]
    counts = Counter(names)
    return [
        _read(path, name if counts[name] == 1 else f"{name} ({number})", kinds)
        for number, (path, name) in enumerate(zip(paths, names, strict=True), start=1)
    ]


def _read(path: Path, name: str, kinds: Kinds) -> FinishedRun[Any]:
    if has_bare_tables(path):
        return _bare_tables(path, name, kinds)
    if is_training(path) or not is_measurement(path):
        return _training(path, name)
    kind = _kind(path, kinds)
    tables = table_classes(kind.tables)
    missing = [t for t in tables if not (path / "results" / f"{t}.parquet").is_file()]
    if missing:
        raise InvalidValue(
            f"{path}: expected a finished measurement, got one without "
            f"results/{missing[0]}.parquet; finish it with --resume"
        )
    summary = read_summary(path)
    return FinishedRun(
        kind=kind.name,
        name=name,
        title=summary["title"],
        sentences=tuple(summary["sentences"]),
        warnings=tuple(summary["warnings"]),
        config=_json(path / "config.json"),
        about=_json(path / "about.json"),
        tables=read_tables(path, kind.tables),
    )


def _bare_tables(path: Path, name: str, kinds: Kinds) -> FinishedRun[Any]:
    """Return a run of tables alone; a table that is not there is empty."""
    files = {p.stem for p in path.glob("*.parquet")}
    # The kind with the fewest tables first: those of a diagnosis are of three others.
    for kind in sorted(kinds.values(), key=lambda k: len(table_classes(k.tables))):
        rows = table_classes(kind.tables)
        main = next(iter(rows))
        if main in files and files <= rows.keys():
            read: dict[str, list[Any]] = {
                n: read_rows(path / f"{n}.parquet", rows[n]) for n in files
            }
            return FinishedRun(
                kind=kind.name,
                # A folder such as `float64` says little without the one around it.
                name=f"{path.resolve().parent.name}/{name}",
                title=f"Tables of entrometer {kind.name}",
                sentences=(),
                warnings=(unsealed("the tables"),),
                config={},
                about={},
                tables=kind.tables(**{n: read.get(n, []) for n in rows}),
            )
    raise InvalidValue(
        f"{path}: expected the result tables of one experiment, got "
        f"{', '.join(sorted(files))}; name the directory that --run was given"
    )


def _kind(path: Path, kinds: Kinds) -> RunKind[Any]:
    manifest = verified(path, names=())
    name = (manifest or {}).get("kind")
    if isinstance(name, str) and name in kinds:
        return kinds[name]
    if manifest is None:
        # An unsealed run names no kind, but no two kinds have the same tables.
        files = {p.stem for p in (path / "results").glob("*.parquet")}
        for kind in kinds.values():
            if table_classes(kind.tables).keys() == files:
                return kind
    raise InvalidValue(
        f"{path}: expected a run of kind {', '.join([*kinds, TRAINING])}, got "
        f"{name!r}; install the package that registers this kind, or make the report "
        "with the version of entrometer that wrote the run"
    )


def _training(path: Path, name: str) -> TrainingRun:
    metrics = training_metrics(path)
    if "step" not in metrics:
        raise InvalidValue(
            f"{path}: expected a training with logged steps, got none; train it first"
        )
    steps = metrics["step"]
    return FinishedRun(
        kind=TRAINING,
        name=name,
        title=f"Training run {name}",
        sentences=(
            f"A training run of {int(steps.max()):,} steps." if steps.size else "",
        ),
        warnings=tuple(map(unsealed, unsealed_files(path))),
        config=_json(path / "config.json"),
        about={},
        tables=TrainingTables(metrics, evaluation_metrics(path)),
    )


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}
