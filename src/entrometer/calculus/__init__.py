"""Calculus in the parameters: derivatives, update vectors and kernels.

A quantity of the size of the model is a `Vector`: a tensor for every parameter name.
"""

from entrometer.calculus.adamw import (
    AdamWHyperparameters,
    AdamWState,
    AdamWStep,
    adamw_update,
)
from entrometer.calculus.derivatives import (
    Pullback,
    SecondTangents,
    Tangents,
    jvp,
    jvp2,
    jvp_many,
    vjp,
)
from entrometer.calculus.functional import functional, trainable_parameters
from entrometer.calculus.gram import cross_gram, gram, inner_products
from entrometer.calculus.kernel_operator import score_kernel_operator
from entrometer.calculus.noise_scale import GradientNorms, squared_norms
from entrometer.calculus.per_sequence_gradients import per_sequence_gradients
from entrometer.calculus.preconditioners import (
    adam_preconditioner,
    identity_preconditioner,
    whiten,
)
from entrometer.calculus.sgd import SGDStep, sgd_update
from entrometer.calculus.sketch import Sketch
from entrometer.calculus.updates import HistorySplit, Update, clip_scale
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
    "GradientNorms",
    "HistorySplit",
    "Pullback",
    "SGDStep",
    "SecondTangents",
    "Sketch",
    "Tangents",
    "Update",
    "Vector",
    "adam_preconditioner",
    "adamw_update",
    "add",
    "clip_scale",
    "cross_gram",
    "dot",
    "functional",
    "gram",
    "identity_preconditioner",
    "inner_products",
    "jvp",
    "jvp2",
    "jvp_many",
    "multiply",
    "norm",
    "per_sequence_gradients",
    "scale",
    "score_kernel_operator",
    "sgd_update",
    "squared_norms",
    "trainable_parameters",
    "vjp",
    "whiten",
    "zeros_like",
]
