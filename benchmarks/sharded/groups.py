"""Programs that run in a group of processes under torchrun, or in one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def measured(
    folder: Path, g: int, arguments: Sequence[str], limit: int = 0
) -> dict[str, Any]:
    """Run a measurement in g processes, with `folder`/run as its run directory."""
    shards = ["--model-shards", str(g)] if g > 1 else []
    run = ["--run", str(folder / "run"), "--json"]
    return watched(folder, g, [*arguments, *run, *shards], limit)


def watched(
    folder: Path, g: int, arguments: Sequence[str], limit: int = 0
) -> dict[str, Any]:
    """Run a command of entrometer in g processes.

    Returns its seconds and the most memory of each process; with a `limit` in MiB on
    each, it may fail.
    """
    folder.mkdir()
    began = time.perf_counter()
    done = program(g, "child", [str(folder), str(limit), *arguments])
    if done.returncode and not limit:
        raise RuntimeError(f"{arguments}: {done.stderr[-3000:]}")
    peaks = [json.loads(f.read_text()) for f in sorted(folder.glob("peak-*.json"))]
    return {
        "exit code": done.returncode,
        "said": done.stderr.strip().splitlines()[-1:] if done.returncode else [],
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": [peak["peak_mib"] for peak in peaks],
    }


def program(
    g: int, name: str, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a module of this package in g processes."""
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
