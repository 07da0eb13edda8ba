"""What `--dry-run` says a measurement will take, beside what it takes."""

import json
import math
from pathlib import Path

from benchmarks.cli.process import entrometer
from benchmarks.harness import Check

RUNS = {
    "two updates of a checkpoint": (2, "--updates recorded sampled-1"),
    "float64, with more learning rates": (
        4,
        "--updates sampled-1 --prompts 128 --precision float64 "
        "--etas 1e-7 1e-6 1e-5 3e-5 1e-4 3e-4",
    ),
}


def estimates(root: Path, trained: Path) -> tuple[list[Check], dict[str, list[float]]]:
    checks, seconds = [], {}
    for number, (name, (step, settings)) in enumerate(RUNS.items()):
        command = [
            "measure",
            str(trained / f"checkpoint-{step}"),
            *settings.split(),
            *("--run", str(root / f"priced-{number}")),
        ]
        _, told = entrometer(*command, "--dry-run", "--json")
        estimate = json.loads(told)["seconds"]
        real, _ = entrometer(*command)
        seconds[name] = [round(estimate, 1), round(real, 1)]
        off = abs(estimate - real) / real if math.isfinite(estimate) else math.nan
        checks.append(Check(f"estimate off by, {name}", off, at_most=0.3))
    return checks, seconds
