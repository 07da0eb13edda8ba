"""The reference training again, under entropy bonuses; resumable.

Usage: python -m studies.long_run_smollm2 [RUNS], from the root of the repository. The
plain training is the reference run itself, which begins with the same policy, prompts
and seeds. Tables go to studies/interventions/smollm2, and those of the README are
printed. Two cores take about an hour.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from entrometer.cli import main
from entrometer.runs import logged_metrics, read_metrics, write_metrics
from entrometer.runs.columns import Metrics
from studies.markdown import table

STUDIES = Path(__file__).parent
HERE = STUDIES / "interventions" / "smollm2"


class Training(NamedTuple):
    """Of a loss, so far."""

    loss: str
    steps: int
    evaluated: bool


TRAININGS = {
    # Of the strengths that were compared, one step keeps most entropy with it.
    "strong": Training("entropy-bonus:alpha=0.03", 8, evaluated=False),
    # A tenth: what one step shows of it, kept up.
    "weak": Training("entropy-bonus:alpha=0.003", 32, evaluated=True),
}
MEASURES = ("entropy", "pass_at_1", "pass_at_8")
WINDOW = 8


def reproduce(runs: Path) -> int:
    """Train, evaluate, collect, print."""
    for name, training in TRAININGS.items():
        run, kept = runs / name, HERE / name
        failed = _train(run, training)
        if not failed and training.evaluated:
            failed = main(["eval", str(run), "--problems", "64"])
        if failed:
            return failed
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(run / "config.json", kept / "config.json")
        write_metrics(kept / "metrics.parquet", logged_metrics(run))
        if training.evaluated:
            (found,) = (run / "evaluation").glob("*/table.parquet")
            shutil.copy(found, kept / "evaluation.parquet")
    print(batches(), held_out(), sep="\n\n")
    return 0


def _train(run: Path, training: Training) -> int:
    if (run / "config.json").is_file():
        return main(["train", "--resume", str(run)])
    settings = f"--recipe reference --predict-every 0 --steps {training.steps}".split()
    loss = ["--intervention", training.loss]
    return main(["train", "--run", str(run), *settings, *loss])


def batches() -> str:
    """Entropy and reward of the update batches, by so many steps."""
    folders = {"plain": STUDIES / "reference"} | {n: HERE / n for n in TRAININGS}
    found = {n: read_metrics(p / "metrics.parquet") for n, p in folders.items()}
    last = max(training.steps for training in TRAININGS.values())
    return table(
        ("steps", *(f"{what}, {n}" for what in ("entropy", "reward") for n in found)),
        (
            (
                f"{first}–{first + WINDOW - 1}",
                *(
                    _mean(run, column, first)
                    for column in ("entropy/token", "reward")
                    for run in found.values()
                ),
            )
            for first in range(1, last + 1, WINDOW)
        ),
    )


def _mean(run: Metrics, column: str, first: int) -> str:
    own = (run["step"] >= first) & (run["step"] < first + WINDOW)
    return f"{np.mean(run[column][own]):.3f}" if own.any() else ""


def held_out() -> str:
    """Held-out measures of the trainings that were evaluated, by step."""
    names = [name for name, training in TRAININGS.items() if training.evaluated]
    folders = [STUDIES / "reference", *(HERE / name for name in names)]
    found = [read_metrics(folder / "evaluation.parquet") for folder in folders]
    return table(
        ("step", *(f"{what}, {n}" for what in MEASURES for n in ("plain", *names))),
        (
            (str(step), *(_interval(run, x, step) for x in MEASURES for run in found))
            for step in _common(found)
        ),
    )


def _common(runs: Sequence[Metrics]) -> list[int]:
    return sorted(set.intersection(*({int(n) for n in run["step"]} for run in runs)))


def _interval(run: Metrics, name: str, step: int) -> str:
    (row,) = np.flatnonzero(run["step"] == step)
    value, low, high = (run[f"{name}{end}"][row] for end in ("", "_low", "_high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "runs/reference-bonus"
    sys.exit(reproduce(Path(path)))
