"""Commands in processes of their own."""

import multiprocessing
import os
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

TRAIN = """--policy tiny --task arithmetic --level tiny --imitation.steps 60
 --imitation.batch 32 --imitation.learning-rate 3e-3 --steps 4 --save-every 2
 --micro-batch 32 --learning-rate 1e-4 --max-tokens 32 adapter:none"""


def entrometer(*arguments: str) -> tuple[float, str]:
    """Seconds of a command that is started as a user would, and what it printed."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "entrometer.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - began, done.stdout


def train(run: Path) -> Path:
    """A run of four steps with checkpoints 0, 2 and 4."""
    entrometer("train", "--run", str(run), *TRAIN.split())
    return run


def process(arguments: list[str]) -> BaseProcess:
    """The same command, of a server that has torch loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["benchmarks.cli.process", "entrometer.experiments.measure.measure"]
    )
    return context.Process(target=_main, args=(arguments,))


def _main(arguments: list[str]) -> None:
    import torch

    from entrometer.cli import main

    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        code = main(arguments)
    os._exit(code)
