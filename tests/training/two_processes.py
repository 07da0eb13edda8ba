"""The toy run, on as many processes as it is started with."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

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


def launch(*command: str) -> subprocess.CompletedProcess[str]:
    """Run this file in two processes, by `torchrun` or another launcher."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def torchrun(path: Path) -> None:
    arguments = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = launch(*arguments, __file__, str(path))
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    torch.set_num_threads(1)
    with quietly():
        run.train(TWO, Path(sys.argv[1]))
