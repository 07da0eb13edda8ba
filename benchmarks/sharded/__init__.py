"""Models in the shards of 1, 2 and 4 processes: same results, a share of the memory.

SHARDED_ONLY=NAME takes one subject; with SHARDED_AT=FOLDER runs are kept there, and an
interrupted benchmark resumes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from benchmarks.sharded.differences import largest
from benchmarks.sharded.subjects import Subject, subjects
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
    return Report(checks, figures)


def _compared(kept: Kept, subject: Subject) -> tuple[list[Check], dict[str, Any]]:
    checkpoint = Path(kept.once(subject.name, partial(_made, subject))["checkpoint"])
    checks, figures = [], {}
    work = [(verb, "float64") for verb in subject.verbs] + [("measure", "float32")]
    for verb, precision in work:
        arguments = subject.command(checkpoint, verb, precision)
        names = [f"{subject.name}-{verb}-{precision}-{g}" for g in GROUPS]
        runs = [
            kept.once(name, partial(_in_group, g=g, arguments=arguments))
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


def _in_group(
    folder: Path, g: int, arguments: Sequence[str], limit: int = 0
) -> dict[str, Any]:
    """Run a command in a group; its seconds, and the most memory of each process."""
    folder.mkdir()
    run = [*arguments, "--run", str(folder / "run"), "--json"]
    shards = ["--model-shards", str(g)] if g > 1 else []
    began = time.perf_counter()
    done = _program(g, "child", [str(folder), str(limit), *run, *shards])
    if done.returncode and not limit:
        raise RuntimeError(f"{arguments}: {done.stderr[-3000:]}")
    peaks = [json.loads(f.read_text()) for f in sorted(folder.glob("peak-*.json"))]
    return {
        "exit code": done.returncode,
        "said": done.stderr.strip().splitlines()[-1:] if done.returncode else [],
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": [peak["peak_mib"] for peak in peaks],
    }


def _program(
    g: int, name: str, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    module = f"benchmarks.sharded.{name}"
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={g}"]
    start = [*launcher, "-m", "--", module] if g > 1 else ["-m", module]
    return subprocess.run(
        [sys.executable, *start, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def _on_ray(kept: Kept, subject: Subject, checkpoint: Path) -> list[Check]:
    """A group of two as one worker on Ray, against one process."""
    arguments = subject.command(checkpoint, "measure", "float64")
    cluster = ("--engine", "ray", "--workers", "1", "--model-shards", "2")
    name = f"{subject.name}-ray"
    kept.once(name, partial(_in_group, g=1, arguments=[*arguments, *cluster]))
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
        done = _program(g, "held", [str(at), str(checkpoint), base, str(g)])
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
    arguments = subject.command(checkpoint, "measure", "float32")
    codes = {
        g: kept.once(
            f"{subject.name}-limited-{g}",
            partial(_in_group, g=g, arguments=arguments, limit=FITS),
        )["exit code"]
        for g in (1, 4)
    }
    return [
        Check(f"exit code of 4 processes of {FITS} MiB", codes[4], at_most=0),
        Check(f"exit code of one process of {FITS} MiB", codes[1], at_least=1),
    ]
