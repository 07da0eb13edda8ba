"""Cost of a verdict on the next batches: 8 update batches against one."""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.command import processor_seconds
from benchmarks.harness import Check, Report

TIMES = 3
VERBS = {
    "measure": "--curvature-prompts 0 --variance-prompts 0",
    "influence": "",
    "compare": "--minibatches 1/1",
}


def run() -> Report:
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        processor_seconds(
            "train",
            "--recipe",
            "tiny-twin",
            "--steps",
            12,
            "--save-every",
            2,
            "--run",
            folder / "run",
        )
        ratios: dict[str, list[float]] = {}
        for again in range(TIMES):
            for source, checkpoint in (("recorded", 2), ("sampled", 10)):
                for verb, flags in VERBS.items():
                    # In turn, so that a slow moment of the machine meets both.
                    one, eight = (
                        processor_seconds(
                            *(verb, folder / "run" / f"checkpoint-{checkpoint}"),
                            *("--batches", count, "--no-report", *flags.split()),
                            *("--run", folder / f"{verb}-{source}-{count}-{again}"),
                        )
                        for count in (1, 8)
                    )
                    ratios.setdefault(f"{verb}, {source}", []).append(eight / one)
    return Report(
        [
            Check(f"8 batches over 1, {name}", median(found), at_most=3.0)
            for name, found in ratios.items()
        ],
        {name: [round(x, 3) for x in found] for name, found in ratios.items()},
    )
