"""Calculus in the parameters: derivatives, update vectors and kernels.

A quantity of the size of the model is a `Vector`: one tensor per parameter name.
"""

from entrometer.calculus.adamw import (
    AdamWHyperparameters,
    AdamWState,
    AdamWStep,
    adam_preconditioner,
    adamw_update,
)
from entrometer.calculus.derivatives import (
    Pullback,
    SecondTangents,
    Tangents,
    jvp,
    jvp2,
    vjp,
)
from entrometer.calculus.kernels import (
    inner_products,
    whiten,
)
from entrometer.calculus.sketch import Sketch
from entrometer.calculus.updates import (
    HistorySplit,
    Update,
    clip_scale,
    identity_preconditioner,
)
from entrometer.calculus.vectors import (
    Vector,
    add,
    dot,
    multiply,
    norm,
    scale,
    zeros_like,
)

__all__ = [
    "AdamWHyperparameters",
    "AdamWState",
    "AdamWStep",
    "HistorySplit",
    "Pullback",
    "SecondTangents",
    "Sketch",
    "Tangents",
    "Update",
    "Vector",
    "adam_preconditioner",
    "adamw_update",
    "add",
    "clip_scale",
    "dot",
    "identity_preconditioner",
    "inner_products",
    "jvp",
    "jvp2",
    "multiply",
    "norm",
    "scale",
    "vjp",
    "whiten",
    "zeros_like",
]
