"""What one policy-gradient step does to a model's entropy and expected reward."""

from typing import TYPE_CHECKING, Any

from entrometer.version import __version__

if TYPE_CHECKING:
    from entrometer.api.calls import compare, influence, kernel, load, measure
    from entrometer.api.result import Result, Trained, read

__all__ = [
    "Result",
    "Trained",
    "__version__",
    "compare",
    "influence",
    "kernel",
    "load",
    "measure",
    "read",
]


def __getattr__(name: str) -> Any:
    """Load the experiments when one is first asked for: `import entrometer` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'entrometer' has no attribute {name!r}")
    from entrometer.api import calls, result

    return getattr(result if hasattr(result, name) else calls, name)


def __dir__() -> list[str]:
    return __all__
