"""Peak memory that a jvp of one response adds to a process that has its model."""

import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.long_context.subject import long_response, model_with_adapter
from benchmarks.real_policy import random_vector
from entrometer import passes

_WORKER = "from benchmarks.long_context.memory import main; main()"


def added_mib(T: int) -> float:
    """Measure in a fresh process: memory that one length leaves hides the next."""
    command = [sys.executable, "-c", _WORKER, str(T)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measured(T: int) -> float:
    torch.set_num_threads(1)
    policy = model_with_adapter()
    v = random_vector(policy, 0.01)
    # The first pass loads kernels and compares the rules with forward-mode AD.
    passes.jvp(policy, long_response(16), [v])
    # The kernel then counts the peak anew, from what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_mib("VmRSS")
    passes.jvp(policy, long_response(T), [v])
    return _status_mib("VmHWM") - before


def _status_mib(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(size) / 1024


def main() -> None:
    print(measured(int(sys.argv[1])))
