"""Checkpoints that the frameworks themselves write, with two processes on gloo."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from entrometer.policy.tiny import save_tiny

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROCESSES, STEPS = 2, 3
SEEDS = (100, 101)
"""Of the batches of the step behind the checkpoint, one a process."""

BETA = 0.9
"""Of the first moment, in all trainings."""

KINDS = {
    "verl": ("fsdp", "fsdp-orig", "fsdp2", "fsdp-lora", "fsdp2-lora"),
    "deepspeed": ("zero1", "zero2", "zero2-bf16", "zero3", "zero3-bf16"),
}


@dataclass(frozen=True)
class Truth:
    """A checkpoint, and what it holds by the framework's own means."""

    path: Path
    base: Path
    """The model that was trained."""

    weights: dict[str, Tensor]
    first_moment: dict[str, Tensor]
    second_moment: dict[str, Tensor]
    after: dict[str, Tensor]
    """Weights after one more step."""

    gradient: dict[str, Tensor] | None = None
    """Of that step; None where it can be computed again, in float32."""


def site(framework: str) -> Path:
    """Where a framework is installed, by itself."""
    return Path(os.environ.get(f"{framework.upper()}_SITE", ROOT / f".{framework}"))


def train(framework: str, kind: str, folder: Path) -> Truth:
    """Train the tiny policy for a few steps, and one more behind the checkpoint."""
    base = save_tiny(folder / "tiny")
    program = str(HERE / f"{framework}_training.py")
    running = [
        _start(
            framework, [program, kind, str(base), str(folder), str(r), str(PROCESSES)]
        )
        for r in range(PROCESSES)
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-4000:]
    read = _of_verl if framework == "verl" else _of_deepspeed
    return read(folder, base)


def _start(framework: str, arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(site(framework)),
            "OMP_NUM_THREADS": "1",
            "DS_ACCELERATOR": "cpu",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _of_verl(folder: Path, base: Path) -> Truth:
    held = torch.load(folder / "truth.pt", weights_only=True)
    return Truth(
        folder / f"global_step_{STEPS}",
        base,
        held["weights"],
        {name: own["exp_avg"] for name, own in held["moments"].items()},
        {name: own["exp_avg_sq"] for name, own in held["moments"].items()},
        held["after"],
    )


def _of_deepspeed(folder: Path, base: Path) -> Truth:
    path = folder / "_actor" / f"global_step{STEPS}"
    now, then = (
        _universal(folder, f"global_step{step}") for step in (STEPS, STEPS + 1)
    )
    m, later = (dict(_values(step, "exp_avg")) for step in (now, then))
    half = any(path.glob("bf16_*"))
    return Truth(
        path,
        base,
        dict(_values(now, "fp32")),
        m,
        dict(_values(now, "exp_avg_sq")),
        dict(_values(then, "fp32")),
        {n: (later[n].double() - BETA * m[n]) / (1 - BETA) for n in m}
        if half
        else None,
    )


def _universal(folder: Path, step: str) -> Path:
    """A checkpoint by parameter, as DeepSpeed's own tool makes it."""
    out = folder / f"universal-{step}"
    arguments = ["--input_folder", str(folder / "_actor" / step)]
    arguments += ["--output_folder", str(out), "--inject_missing_state"]
    arguments += ["--num_extract_workers", "1", "--num_merge_workers", "1"]
    made = _start(
        "deepspeed", ["-m", "deepspeed.checkpoint.ds_to_universal", *arguments]
    )
    _, errors = made.communicate()
    assert made.returncode == 0, errors[-4000:]
    return out / "zero"


def _values(universal: Path, kind: str) -> Iterator[tuple[str, Tensor]]:
    for folder in universal.iterdir():
        if (folder / f"{kind}.pt").is_file():
            held = torch.load(folder / f"{kind}.pt", weights_only=True)
            value = held["param"] if isinstance(held, dict) else held
            yield folder.name, value.detach()
