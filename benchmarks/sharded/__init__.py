"""Models in the shards of 1, 2 and 4 processes: same results, a share of the memory.

SHARDED_ONLY=NAME takes one subject; with SHARDED_AT=FOLDER runs are kept there, and an
interrupted benchmark resumes.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from benchmarks.sharded import from_verl
from benchmarks.sharded.differences import largest
from benchmarks.sharded.groups import measured, program
from benchmarks.sharded.subjects import LEAST, Subject, command, subjects
from studies.smollm2 import prepare_smollm2

GROUPS = (1, 2, 4)
LIMITS = {"float64": 1e-10, "float32": 1e-5}
FITS = 1100
"""MiB above the imports in which SmolLM2 is measured by four processes, not by one."""


def run() -> Report:
    prepare_smollm2()
    checks: list[Check] = []
    figures: dict[str, Any] = {}
    with keeping("SHARDED_AT", Path(__file__).parent) as kept:
        for subject in subjects(kept.root):
            if os.environ.get("SHARDED_ONLY", subject.name) == subject.name:
                made, found = _compared(kept, subject)
                checks += made
                figures[subject.name] = found
        if os.environ.get("SHARDED_ONLY", from_verl.NAME) == from_verl.NAME:
            made, figures[from_verl.NAME] = from_verl.checks(kept)
            checks += made
    return Report(checks, figures)


def _compared(kept: Kept, subject: Subject) -> tuple[list[Check], dict[str, Any]]:
    checkpoint = Path(kept.once(subject.name, partial(_made, subject))["checkpoint"])
    checks, figures = [], {}
    work = [(verb, "float64") for verb in subject.verbs] + [("measure", "float32")]
    for verb, precision in work:
        arguments = subject.command(checkpoint, verb, precision)
        names = [f"{subject.name}-{verb}-{precision}-{g}" for g in GROUPS]
        runs = [
            kept.once(name, partial(measured, g=g, arguments=arguments))
            for name, g in zip(names, GROUPS, strict=True)
        ]
        one, *others = (kept.root / name / "run" for name in names)
        for run, g in zip(others, GROUPS[1:], strict=True):
            off, numbers = largest(one, run)
            what = f"{subject.name}, {verb}, {g} processes, {precision}"
            checks += [
                Check(f"{what}: off", off, at_most=LIMITS[precision]),
                Check(f"{what}: numbers compared", numbers, at_least=20),
            ]
        figures[f"{verb}, {precision}"] = dict(zip(GROUPS, runs, strict=True))
    if subject.name == "mixture":
        checks += _on_ray(kept, subject, checkpoint)
    made, shares = _shares(kept, subject, checkpoint)
    figures["held, MiB"] = shares
    if subject.name == "smollm2":
        made += _fits(kept, subject, checkpoint)
    return checks + made, figures


def _made(subject: Subject, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    return {"checkpoint": str(subject.make(folder))}


def _on_ray(kept: Kept, subject: Subject, checkpoint: Path) -> list[Check]:
    """A group of two as one worker on Ray, against one process."""
    arguments = subject.command(checkpoint, "measure", "float64")
    cluster = ("--engine", "ray", "--workers", "1", "--model-shards", "2")
    name = f"{subject.name}-ray"
    kept.once(name, partial(measured, g=1, arguments=[*arguments, *cluster]))
    one = kept.root / f"{subject.name}-measure-float64-1" / "run"
    off, _ = largest(one, kept.root / name / "run")
    what = f"{subject.name}, measure, 2 processes on Ray, float64: off"
    return [Check(what, off, at_most=LIMITS["float64"])]


def _shares(
    kept: Kept, subject: Subject, checkpoint: Path
) -> tuple[list[Check], dict[int, Any]]:
    """Memory of parameters, moments and a direction in each process of a group."""
    base = "smollm2" if subject.name == "smollm2-lora" else ""
    found: dict[int, Any] = {}

    def of_group(at: Path, g: int) -> dict[str, Any]:
        at.mkdir()
        done = program(g, "held", [str(at), str(checkpoint), base, str(g)])
        assert not done.returncode, done.stderr[-3000:]
        return {
            f.stem: json.loads(f.read_text()) for f in sorted(at.glob("held-*.json"))
        }

    for g in GROUPS:
        name = f"{subject.name}-held-{g}"
        found[g] = kept.once(name, partial(of_group, g=g))
    one = sum(found[1]["held-0"].values())
    checks = [
        Check(
            f"{subject.name}: parameters, moments and direction of one of {g} "
            f"processes, over {one:.0f} MiB / {g}",
            max(sum(of.values()) for of in found[g].values()) / (one / g),
            at_most=1.15,
        )
        for g in GROUPS[1:]
    ]
    return checks, found


def _fits(kept: Kept, subject: Subject, checkpoint: Path) -> list[Check]:
    """A measurement under a limit of memory, by one process and by four."""
    arguments = command(checkpoint, "measure", "float32", (*subject.settings, *LEAST))
    codes = {
        g: kept.once(
            f"{subject.name}-limited-{g}",
            partial(measured, g=g, arguments=arguments, limit=FITS),
        )["exit code"]
        for g in (1, 4)
    }
    return [
        Check(f"exit code of 4 processes of {FITS} MiB", codes[4], at_most=0),
        Check(f"exit code of one process of {FITS} MiB", codes[1], at_least=1),
    ]
