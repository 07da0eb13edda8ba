"""The processes that train together."""

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
