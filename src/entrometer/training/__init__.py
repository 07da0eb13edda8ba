"""Training on TRL: imitation, Dr-GRPO, what it records and what it can resume.

Names are looked up when they are first used: configs can then be read, and commands
explained, without waiting for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrometer.training.config import (
        AdapterConfig,
        ImitationConfig,
        TrainConfig,
        read_config,
        save_config,
    )
    from entrometer.training.instruments import Instrument, Instrumented, MicroBatch
    from entrometer.training.intervened import Intervened
    from entrometer.training.recorder import Recorder
    from entrometer.training.run import prolong, train
    from entrometer.training.trainer import Trainer

_HOMES = {
    "AdapterConfig": "config",
    "ImitationConfig": "config",
    "Instrument": "instruments",
    "Instrumented": "instruments",
    "Intervened": "intervened",
    "MicroBatch": "instruments",
    "Recorder": "recorder",
    "TrainConfig": "config",
    "Trainer": "trainer",
    "prolong": "run",
    "read_config": "config",
    "save_config": "config",
    "train": "run",
}

__all__ = [
    "AdapterConfig",
    "ImitationConfig",
    "Instrument",
    "Instrumented",
    "Intervened",
    "MicroBatch",
    "Recorder",
    "TrainConfig",
    "Trainer",
    "prolong",
    "read_config",
    "save_config",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
