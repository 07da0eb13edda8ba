"""Bytes of an element in each precision."""

from typing import NamedTuple


class Formats(NamedTuple):
    """Bytes of an element, by what it is part of."""

    frozen: int
    """Weights that are not trained."""

    trained: int
    """Trained parameters, and vectors as large as them."""

    values: int
    """The residual stream, and all products of a pass that computes values."""

    products: int
    r"""Products with frozen weights in derivatives; $\varphi$ is their rate."""


FORMATS = {
    "float32": Formats(4, 4, 4, 4),
    "float64": Formats(8, 8, 8, 8),
    "bfloat16": Formats(2, 2, 2, 2),
    "mixed": Formats(frozen=2, trained=4, values=4, products=2),
}
"""By name of the precision, as `entrometer.policy.Precision` has it."""
