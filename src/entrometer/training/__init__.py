"""Training with TRL: imitation, then Dr-GRPO, recorded and resumable.

Modules are imported when one of their names is first used, so that configs can be read
and `--help` printed without importing torch.
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

_MODULES = {
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
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
