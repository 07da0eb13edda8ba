"""Train, evaluate and collect the reference run; goes on where it stopped.

Usage: python -m studies.reference [RUN], from the root of the repository. RUN is where
the run itself is kept, by default runs/reference. Two cores take about two hours.
"""

import shutil
import sys
from pathlib import Path

from entrometer.cli import main
from entrometer.report import draw_training
from entrometer.runs import (
    logged_metrics,
    read_metrics,
    seal,
    update_path,
    verify,
    write_metrics,
)

HERE = Path(__file__).parent
KEPT = (8, 24, 40, 56)
"""Steps whose checkpoints are kept here, each with the update batch that follows."""


def collect(run: Path, here: Path) -> None:
    """Copy what must last out of a finished run, and draw it."""
    tables = sorted((run / "evaluation").glob("*/table.parquet"))
    evaluation, metrics = read_metrics(tables[-1]), logged_metrics(run)
    shutil.copy(run / "config.json", here / "config.json")
    shutil.copy(tables[-1], here / "evaluation.parquet")
    write_metrics(here / "metrics.parquet", metrics)
    kept = ("config.json", "evaluation.parquet", "metrics.parquet")
    seal(here, only=kept, about=verify(run, names=()))
    draw_training(here / "training.svg", metrics, evaluation)
    for folder in ("updates", *(f"checkpoint-{step}" for step in KEPT)):
        shutil.rmtree(here / folder, ignore_errors=True)
    (here / "updates").mkdir()
    for step in KEPT:
        shutil.copytree(run / f"checkpoint-{step}", here / f"checkpoint-{step}")
    # A checkpoint's manifest lists the batches since the one before; and the batch
    # after it is the one to measure.
    for path in sorted((run / "updates").iterdir()):
        shutil.copy(path, here / "updates")
    assert update_path(here, KEPT[-1] + 1).is_file()


def reproduce(run: Path) -> int:
    """Every step of the study, by the commands that a reader would use."""
    begun = (run / "config.json").is_file()
    where = ["--resume", str(run)] if begun else ["--run", str(run)]
    recipe = [] if begun else ["--recipe", "reference"]
    failed = main(["train", *where, *recipe]) or main(
        ["eval", str(run), "--problems", "64"]
    )
    if not failed:
        collect(run, HERE)
    return failed


if __name__ == "__main__":
    sys.exit(reproduce(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/reference")))
