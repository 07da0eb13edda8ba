"""Finished runs: their kind, their summary, and which files are sealed."""

from pathlib import Path
from typing import Any

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import DamagedFile
from entrometer.runs.columns import Metrics, logged_metrics, read_metrics
from entrometer.runs.complete import checkpoints, is_sealed_file, present, verified
from entrometer.runs.rows import read_rows
from entrometer.runs.settings import CONFIG
from entrometer.runs.tables.evaluation import Evaluated
from entrometer.runs.untrusted import read_json

_METRICS = "metrics.parquet"
_EVALUATION = "evaluation.parquet"


def is_measurement(path: Path) -> bool:
    """Return True for a finished experiment, False for a training run.

    Raise for any other directory, and for an experiment that was stopped.
    """
    about = verified(path, names=()) or {}
    if about.get("finished") is False:
        raise InvalidValue(
            f"{path}: expected a finished measurement, got one that was stopped before "
            "its end; finish it with --resume"
        )
    if (path / "summary.json").is_file() and (path / "results").is_dir():
        return True
    if (path / CONFIG).is_file() and (present(path / _METRICS) or checkpoints(path)):
        return False
    got = "another directory" if path.is_dir() else "no such directory"
    raise InvalidValue(
        f"{path}: expected a finished measurement (results/ and summary.json) or a "
        f"training run (config.json and checkpoint-N/), got {got}; name the directory "
        "that --run was given"
    )


def is_training(run: Path) -> bool:
    """Return whether a directory has the config.json of a training, not of a model."""
    if (verified(run, names=()) or {}).get("kind") == "training":
        return True
    try:
        return "imitation" in read_json(run / CONFIG)
    except (OSError, ValueError):
        return False


def has_bare_tables(path: Path) -> bool:
    """Return whether a directory has result tables and nothing else of a run.

    Committed studies keep their tables so.
    """
    others = (CONFIG, "summary.json", "results")
    return any(path.glob("*.parquet")) and not any((path / n).exists() for n in others)


def read_summary(run: Path) -> dict[str, Any]:
    """Return title, sentences and warnings of a measurement, as they were sealed.

    The first warning of an unsealed measurement says that it is unsealed.
    """
    path = run / "summary.json"
    verified(run)
    summary = read_json(path)
    lists = (summary.get("sentences"), summary.get("warnings"))
    if not isinstance(summary.get("title"), str) or not all(map(_are_texts, lists)):
        raise DamagedFile(
            f"{path}: expected a title, sentences and warnings as text, got something "
            "else; finish the measurement with --resume"
        )
    summary["warnings"] = [*map(unsealed, unsealed_files(run)), *summary["warnings"]]
    return summary


def unsealed(name: str) -> str:
    """Return the warning that no manifest can prove a file or directory unchanged."""
    return (
        f"Unsealed: no manifest.json lists {name}, so changes to it cannot be detected."
    )


def unsealed_files(run: Path) -> list[str]:
    """Return files of a run that no manifest lists; of a measurement, "the results"."""
    if has_bare_tables(run):
        return ["the tables"]
    if is_measurement(run):
        return [] if verified(run, names=()) is not None else ["the results"]
    names = (CONFIG, _METRICS, _EVALUATION)
    # Evaluations in the run's directory are read only if their own manifest is intact.
    files = [run / name for name in names if present(run / name)]
    return [p.relative_to(run).as_posix() for p in files if not is_sealed_file(p)]


def training_metrics(run: Path) -> Metrics:
    """Return what each step logged, from metrics.parquet or the newest checkpoint."""
    table = run / _METRICS
    return read_metrics(table) if present(table) else logged_metrics(run)


def evaluation_metrics(run: Path) -> Metrics | None:
    """Return evaluation.parquet, else the evaluation with most responses, else None.

    One row per checkpoint: `step`, `prompts`, `responses`, and for each quantity x the
    columns `x`, `x_standard_error`, `x_low`, `x_high`, and the same of `change_x`.
    """
    if present(run / _EVALUATION):
        return read_metrics(run / _EVALUATION)
    tables = [_by_checkpoint(read_rows(path, Evaluated)) for path in _evaluations(run)]
    return max(
        reversed(tables), key=lambda t: float(t["responses"].sum()), default=None
    )


def _by_checkpoint(rows: list[Evaluated]) -> Metrics:
    ends = {"": "", "_standard_error": "_se", "_low": "_low", "_high": "_high"}
    names = list(dict.fromkeys(row.quantity for row in rows))
    first = [row for row in rows if row.quantity == names[0]]
    columns: Metrics = {
        name: np.array([getattr(row, name) for row in first], float)
        for name in ("step", "prompts", "responses")
    }
    for prefix, value in (("", "value"), ("change_", "change")):
        for name in names:
            own = [row for row in rows if row.quantity == name]
            columns |= {
                f"{prefix}{name}{end}": np.array([getattr(r, value + se) for r in own])
                for end, se in ends.items()
            }
    return columns


def _evaluations(run: Path) -> list[Path]:
    """Return the tables of finished evaluations in a training's directory."""
    tables = sorted(run.glob("evaluation/*/results/results.parquet"))
    return [t for t in tables if (verified(t.parents[1]) or {}).get("kind") == "eval"]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)
