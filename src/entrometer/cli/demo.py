"""See all of it in minutes: train a tiny policy, evaluate and diagnose it, report."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from entrometer.cli import main
from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.text import plain, print_json

STEPS, MEASURED = 8, 4
"""Dr-GRPO steps, and the one whose checkpoint is measured."""

_NEEDED = (
    *("accelerate", "datasets", "jinja2", "math_verify", "matplotlib"),
    *("reasoning_gym", "trl"),
)
"""Packages of the extras that the verbs of the demo import, each at its own time."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train a tiny policy, find what drains its entropy, write a report.

    Needs no download, no account and no GPU.
    """

    run: Path = Path("runs/demo")
    """Directory of everything that it writes."""

    resume: Flag = False
    """Resume a demo that was stopped."""

    seed: int = 0
    """Seed of everything that is drawn."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Demo, arguments, verb="demo")
    if command.run.exists() and not command.resume:
        raise InvalidValue(
            f"{command.run} already exists; resume it with --resume, or choose another "
            "directory with --run"
        )
    # The report comes last: without this check, a missing package would be found only
    # after the training and the measurement.
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise InvalidValue(
            f"needs {', '.join(missing)}, not installed; from a clone, "
            "pip install -c constraints.txt -e '.[all]'"
        )
    import torch

    # Its tensors are small: a second thread costs more than it brings.
    torch.set_num_threads(1)
    page = command.run / "report.html"
    with redirect_stdout(sys.stderr if command.json else sys.stdout):
        for line in _commands(command, page):
            print(plain(f"$ entrometer {shlex.join(line)}"), flush=True)
            failed = main(line)
            if failed:
                return failed
            print()
    if command.json:
        print_json({"run": command.run, "report": page})
    else:
        print(
            plain(f"Open {page}.")
            + f" It begins with what drains entropy at checkpoint-{MEASURED} and what "
            "would help."
        )
    return 0


def _commands(command: Demo, page: Path) -> list[list[str]]:
    """Return the command lines, as they would be typed."""
    training, diagnosis = command.run / "train", command.run / "diagnose"
    checkpoint = training / f"checkpoint-{MEASURED}"
    new = (
        f"--recipe tiny-twin --steps {STEPS} --save-every {MEASURED} "
        f"--predict-every 0 --seed {command.seed}"
    )
    how = f"--quick --seed {command.seed} --no-report"
    started = (training / "config.json").is_file()
    again = ["--resume"] if (diagnosis / "config.json").is_file() else []
    evaluated = any(training.glob("evaluation/*/config.json"))
    evaluate = ["eval", str(training), "--problems", "64", "--no-report"]
    run, out = str(diagnosis), str(page)
    return [
        ["train", "--run", str(training), *(["--resume"] if started else new.split())],
        [*evaluate, *(["--resume"] if evaluated else [])],
        ["diagnose", str(checkpoint), "--run", run, *how.split(), *again],
        ["report", run, "--out", out],
    ]
