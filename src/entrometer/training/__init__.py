"""Training with TRL: imitation, then Dr-GRPO, recorded and resumable.

Modules are imported when one of their names is first used, so that configs can be read
and `--help` printed without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrometer.training.config import AdapterConfig as AdapterConfig
    from entrometer.training.config import ImitationConfig as ImitationConfig
    from entrometer.training.config import TrainConfig as TrainConfig
    from entrometer.training.config import read_config as read_config
    from entrometer.training.instruments import Instrument as Instrument
    from entrometer.training.instruments import Instrumented as Instrumented
    from entrometer.training.intervened import Intervened as Intervened
    from entrometer.training.micro_batch import MicroBatch as MicroBatch
    from entrometer.training.recorder import Recorder as Recorder
    from entrometer.training.run import prolong as prolong
    from entrometer.training.run import train as train
    from entrometer.training.trainer import Trainer as Trainer
    from entrometer.training.verl import watch_verl as watch_verl
    from entrometer.training.watch_trl import watch as watch

_NAMES = {
    "config": ("AdapterConfig", "ImitationConfig", "TrainConfig", "read_config"),
    "instruments": ("Instrument", "Instrumented"),
    "intervened": ("Intervened",),
    "micro_batch": ("MicroBatch",),
    "recorder": ("Recorder",),
    "run": ("prolong", "train"),
    "trainer": ("Trainer",),
    "verl": ("watch_verl",),
    "watch_trl": ("watch",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
