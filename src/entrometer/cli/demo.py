"""See all of it in minutes: train a tiny policy, evaluate it, measure it, report."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from entrometer.api.output import plain, print_json
from entrometer.cli import evaluate, measure, report, train
from entrometer.cli.parse import Flag, parse
from entrometer.cli.verb import Verb
from entrometer.errors import InvalidValue

STEPS, MEASURED = 8, 4
"""Dr-GRPO steps, and the one whose checkpoint is measured."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train a tiny policy, measure what a step does to its entropy, write a report.

    Needs no download, no account and no GPU.
    """

    run: Path = Path("runs/demo")
    """Directory of everything that it writes."""

    resume: Flag = False
    """Go on with a demo that was stopped."""

    seed: int = 0
    """Of everything that is drawn."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    command = parse(Demo, arguments, verb="demo")
    if command.run.exists() and not command.resume:
        raise InvalidValue(
            f"{command.run} is there already; go on with it by --resume, or choose "
            "another directory with --run"
        )
    import torch

    # Its tensors are small: a second thread costs more than it brings.
    torch.set_num_threads(1)
    page = command.run / "report.html"
    with redirect_stdout(sys.stderr if command.json else sys.stdout):
        for name, verb, settings in _commands(command, page):
            print(plain(f"$ entrometer {shlex.join([name, *settings])}"), flush=True)
            failed = verb.run(settings)
            if failed:
                return failed
            print()
    if command.json:
        print_json({"run": command.run, "report": page})
    else:
        print(
            plain(f"Open {page}.")
            + " Its first figure shows the change of entropy that one step made, beside"
            "\nits linear prediction, for the update that training made and for one "
            "drawn afresh."
        )
    return 0


def _commands(command: Demo, page: Path) -> list[tuple[str, Verb, list[str]]]:
    """What is done, each as it would be typed."""
    training, measurement = command.run / "train", command.run / "measure"
    checkpoint = training / f"checkpoint-{MEASURED}"
    begun = (training / "config.json").is_file()
    again = (measurement / "config.json").is_file()
    new = (
        f"--recipe tiny-twin --steps {STEPS} --save-every {MEASURED} "
        f"--predict-every 0 --seed {command.seed}"
    )
    how = f"--updates recorded sampled-1 --seed {command.seed} --no-report"
    resume = ["--resume"]
    return [
        ("train", train, ["--run", str(training), *(resume if begun else new.split())]),
        ("eval", evaluate, [str(training), "--problems", "64"]),
        (
            "measure",
            measure,
            [
                str(checkpoint),
                *("--run", str(measurement)),
                *how.split(),
                *(resume if again else []),
            ],
        ),
        ("report", report, [str(measurement), str(training), "--out", str(page)]),
    ]
