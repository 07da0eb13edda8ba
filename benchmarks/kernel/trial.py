"""One method in a process of its own: its matrix, its seconds and its peak memory."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.kernel.inputs import Inputs

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of it."""

    K: np.ndarray | None
    seconds: float = float("nan")
    """From loaded model to matrix."""

    work: float = float("nan")
    """Seconds of processors: what a busy machine does not lengthen as much."""

    peak: float = float("nan")
    """Bytes, the largest that the process ever had."""

    version: str = ""
    error: str = ""


def run_trial(method: str, inputs: Inputs) -> Trial:
    """Run `benchmarks.kernel.one` with the method's own Python."""
    python = _python(method)
    if python is None:
        return Trial(None, error="not installed: ENTROMETER_RIVALS has no such folder")
    out = inputs.rollouts.parent / f"{method}.npy"
    command = [str(python), "-m", "benchmarks.kernel.one", method]
    command += [str(inputs.checkpoint), str(inputs.rollouts), str(out)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        command,
        cwd=inputs.rollouts.parent,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return Trial(None, error=done.stderr.strip().splitlines()[-1][-300:])
    told = json.loads(done.stdout.splitlines()[-1])
    return Trial(np.load(out), **told)


def _python(method: str) -> Path | None:
    if method in ("entrometer", "vmap"):
        return Path(sys.executable)
    rivals = os.environ.get("ENTROMETER_RIVALS")
    python = Path(rivals or "/nowhere") / method / "bin" / "python"
    return python if python.is_file() else None
