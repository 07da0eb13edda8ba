"""The reference training again, under the loss that one step speaks for; resumable.

Usage: python -m studies.long_run_smollm2 [RUN], from the root of the repository. The
plain training is the reference run itself, which begins with the same policy, prompts
and seeds. Tables go to studies/interventions/smollm2, and that of the README is
printed. Two cores take about two hours.
"""

import shutil
import sys
from pathlib import Path

from entrometer.cli import main
from entrometer.runs import logged_metrics, read_metrics, write_metrics
from entrometer.runs.metrics import Metrics
from studies.markdown import table

STUDIES = Path(__file__).parent
HERE = STUDIES / "interventions" / "smollm2"

LOSS = "entropy-bonus:alpha=0.03"
"""Kept entropy at all four checkpoints by its prediction, at no cost that was seen."""

MEASURES = ("entropy", "pass_at_1", "pass_at_8")


def reproduce(run: Path) -> int:
    """Train, evaluate, collect, print."""
    begun = (run / "config.json").is_file()
    settings = ["--recipe", "reference", "--intervention", LOSS, "--predict-every", "0"]
    where = ["--resume", str(run)] if begun else ["--run", str(run), *settings]
    failed = main(["train", *where]) or main(["eval", str(run), "--problems", "64"])
    if failed:
        return failed
    HERE.mkdir(parents=True, exist_ok=True)
    tables = sorted((run / "evaluation").glob("*/table.parquet"))
    shutil.copy(run / "config.json", HERE / "config.json")
    shutil.copy(tables[-1], HERE / "evaluation.parquet")
    write_metrics(HERE / "metrics.parquet", logged_metrics(run))
    print(beside(STUDIES / "reference", HERE))
    return 0


def beside(plain: Path, own: Path) -> str:
    """Held-out measures of both trainings by step, the plain one first."""
    both = [read_metrics(folder / "evaluation.parquet") for folder in (plain, own)]
    heads = [f"{name}, {who}" for name in MEASURES for who in ("plain", "bonus")]
    steps = [{int(n): i for i, n in enumerate(run["step"])} for run in both]
    return table(
        ("step", *heads),
        (
            (
                str(step),
                *(
                    _interval(run, name, rows[step])
                    for name in MEASURES
                    for run, rows in zip(both, steps, strict=True)
                ),
            )
            for step in steps[0]
            if step in steps[1]
        ),
    )


def _interval(run: Metrics, name: str, row: int) -> str:
    value, low, high = (run[f"{name}{end}"][row] for end in ("", "_low", "_high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "runs/reference-bonus"
    sys.exit(reproduce(Path(path)))
