"""What one policy-gradient step does to a model's entropy and expected reward."""

from typing import TYPE_CHECKING, Any

from entrometer.version import __version__

if TYPE_CHECKING:
    from entrometer.api.calls import (
        compare,
        diagnose,
        evaluate,
        fork,
        influence,
        kernel,
        load,
        measure,
        mismatch,
        run,
        trajectory,
    )
    from entrometer.api.result import Result, Trained, read
    from entrometer.cli import main
    from entrometer.experiments.experiment import Experiment, register
    from entrometer.training.verl import watch_verl
    from entrometer.training.watch_trl import watch

__all__ = [
    "Experiment",
    "Result",
    "Trained",
    "__version__",
    "compare",
    "diagnose",
    "evaluate",
    "fork",
    "influence",
    "kernel",
    "load",
    "main",
    "measure",
    "mismatch",
    "read",
    "register",
    "run",
    "trajectory",
    "watch",
    "watch_verl",
]


def __getattr__(name: str) -> Any:
    """Import the experiments on first use, so that `import entrometer` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'entrometer' has no attribute {name!r}")
    # By themselves, because they need TRL or verl, which only trainings have installed.
    if name == "watch":
        from entrometer.training.watch_trl import watch

        return watch
    if name == "watch_verl":
        from entrometer.training.verl import watch_verl

        return watch_verl
    from entrometer import cli
    from entrometer.api import calls, result
    from entrometer.experiments import experiment

    homes = (result, calls, experiment, cli)
    return getattr(next(home for home in homes if hasattr(home, name)), name)


def __dir__() -> list[str]:
    return __all__
