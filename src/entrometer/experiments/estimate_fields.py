"""The columns of an estimate, as every table of results has them."""

from typing import Any

from entrometer.estimators import Estimate


def estimate_fields(name: str, e: Estimate) -> dict[str, Any]:
    """The columns of an estimate."""
    return {
        name: e.value,
        f"{name}_se": e.standard_error,
        f"{name}_low": e.low,
        f"{name}_high": e.high,
    }
