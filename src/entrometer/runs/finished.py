"""What a run directory is, and the tables of a training run."""

from pathlib import Path

from entrometer.errors import InvalidValue
from entrometer.runs.complete import checkpoints
from entrometer.runs.metrics import Metrics, logged_metrics, read_metrics


def is_measurement(path: Path) -> bool:
    """Whether a directory is a finished measurement; False if it is a training run.

    Any other is refused.
    """
    if (path / "summary.json").is_file() and (path / "results").is_dir():
        return True
    if (path / "config.json").is_file() and (
        (path / "metrics.parquet").is_file() or checkpoints(path)
    ):
        return False
    got = "another directory" if path.is_dir() else "no such directory"
    raise InvalidValue(
        f"{path}: expected a finished measurement (results/ and summary.json) or a "
        f"training run (config.json and checkpoint-N/), got {got}; name the directory "
        "that --run was given"
    )


def training_metrics(run: Path) -> Metrics:
    """What each step of a training logged, collected or still with its checkpoints."""
    table = run / "metrics.parquet"
    return read_metrics(table) if table.is_file() else logged_metrics(run)


def evaluation_metrics(run: Path) -> Metrics | None:
    """The evaluation with the most responses; of those the last by name."""
    kept = run / "evaluation.parquet"
    files = [kept] if kept.is_file() else sorted(run.glob("evaluation/*/table.parquet"))
    tables = [t for t in map(read_metrics, files) if "step" in t and "responses" in t]
    return max(
        reversed(tables), key=lambda t: float(t["responses"].sum()), default=None
    )
