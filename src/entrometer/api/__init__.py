"""What `import entrometer as em` offers: experiments and their results."""

from entrometer.api.calls import compare, influence, kernel, load, measure
from entrometer.api.result import Result, Trained, read

__all__ = [
    "Result",
    "Trained",
    "compare",
    "influence",
    "kernel",
    "load",
    "measure",
    "read",
]
