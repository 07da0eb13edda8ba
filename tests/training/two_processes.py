"""The toy run, on as many processes as it is started with."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType

from entrometer.training import ImitationConfig, imitation, processes, run
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


def data_parallel(path: Path) -> None:
    """Train, or go on, on two processes that both hold the whole model."""
    _launch("torch.distributed.run", "--standalone", "--nproc-per-node=2", path=path)


def fully_sharded(path: Path) -> None:
    """Train, or go on, on two processes that hold half of it each."""
    config = f"--config_file={ROOT / 'examples' / 'accelerate_fsdp.yaml'}"
    _launch("accelerate.commands.launch", config, "--main_process_port=0", path=path)


def _launch(*launcher: str, path: Path) -> None:
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *launcher, __file__, str(path)],
        env=os.environ | quiet | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _shard_on_processors() -> None:
    """Let accelerate take processors for what it shards on, which are accelerators."""
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    backend = ("gloo", DistributedType.MULTI_GPU)
    PartialState._prepare_backend = lambda *args: backend
    for module in (processes, run, imitation):
        module.on_cpu = lambda: False


if __name__ == "__main__":
    torch.set_num_threads(1)
    if processes.sharded():
        _shard_on_processors()
    with quietly():
        run.train(TWO, Path(sys.argv[1]))
