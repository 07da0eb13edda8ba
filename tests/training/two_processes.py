"""The toy run, on as many processes as it is started with."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import torch

from entrometer.training import ImitationConfig, run
from tests.training.toy import CONFIG, quietly

ROOT = Path(__file__).parents[2]

# Two windows an epoch: after step 5 an update of the window that was begun and one of
# the next are left of the second epoch.
TWO = replace(
    CONFIG,
    problems=16,
    imitation=ImitationConfig(steps=1, batch=4, warmup=1),
    steps=7,
    window=2,
)

# What is trained: an adapter, or every parameter; or an adapter with a loss whose
# statistics are of the whole update, and which adapts.
CONFIGS = {
    "adapter": TWO,
    "whole": replace(TWO, adapter=None, learning_rate=1e-3),
    "intervened": replace(TWO, intervention="toy-lively", max_grad_norm=0.0),
}


def data_parallel(path: Path, trained: str = "adapter") -> None:
    """Train, or go on, on two processes that both hold the whole model."""
    _check(_launched(_TORCHRUN, path, trained))


def fully_sharded(path: Path, trained: str = "adapter") -> None:
    """Train, or go on, on two processes that hold half of it each."""
    _check(_launched(_ACCELERATE, path, trained))


def fully_sharded_until_killed(path: Path, trained: str, step: int) -> None:
    """Train until a process is killed after that step, before its checkpoint."""
    done = _launched(_ACCELERATE, path, trained, str(step))
    assert "Signal 9 (SIGKILL)" in done.stderr, done.stderr


_TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2")
_ACCELERATE = (
    "accelerate.commands.launch",
    f"--config_file={ROOT / 'examples' / 'accelerate_fsdp.yaml'}",
    "--main_process_port=0",
)


def _launched(
    launcher: tuple[str, ...], *arguments: str | Path
) -> "subprocess.CompletedProcess[str]":
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-m", *launcher, __file__, *map(str, arguments)],
        env=os.environ | quiet | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def _check(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stderr


def main(path: str, trained: str, last: str = "") -> None:
    """Train, and die by a signal after the last step, if there is one."""

    def progress(stage: str, step: int, *rest: object) -> None:
        if stage == "Dr-GRPO" and str(step) == last:
            os.kill(os.getpid(), SIGKILL)

    torch.set_num_threads(1)
    with quietly():
        run.train(CONFIGS[trained], Path(path), progress=progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
