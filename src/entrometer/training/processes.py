"""The processes that train together."""

import os
from typing import Any

import torch
from accelerate import PartialState


def on_cpu() -> bool:
    """Whether the processor is all there is to train on."""
    return not torch.accelerator.is_available()


def processes() -> Any:
    """Accelerate's view of this process among those that `torchrun` started.

    Unless it is told that there is no accelerator, each of them would think that it
    is alone, and they would all write to one run.
    """
    return PartialState(cpu=on_cpu())


def sharded() -> bool:
    """Whether `accelerate launch` was told to give each process a part of the model."""
    ways = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    return any(os.environ.get(way, "false").lower() == "true" for way in ways)
