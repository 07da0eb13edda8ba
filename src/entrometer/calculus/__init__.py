"""Calculus in the parameters: derivatives, update vectors and kernels.

A quantity of the size of the model is a `Vector`: one tensor per parameter name.
"""

from entrometer.calculus.adamw import AdamWFactors as AdamWFactors
from entrometer.calculus.adamw import AdamWHyperparameters as AdamWHyperparameters
from entrometer.calculus.adamw import AdamWState as AdamWState
from entrometer.calculus.adamw import AdamWStep as AdamWStep
from entrometer.calculus.adamw import AdamWTensors as AdamWTensors
from entrometer.calculus.adamw import adam_preconditioner as adam_preconditioner
from entrometer.calculus.adamw import adamw_tensor as adamw_tensor
from entrometer.calculus.adamw import adamw_update as adamw_update
from entrometer.calculus.derivatives import Pullback as Pullback
from entrometer.calculus.derivatives import SecondTangents as SecondTangents
from entrometer.calculus.derivatives import Tangents as Tangents
from entrometer.calculus.derivatives import jvp as jvp
from entrometer.calculus.derivatives import jvp2 as jvp2
from entrometer.calculus.derivatives import vjp as vjp
from entrometer.calculus.horizon import batch_directions as batch_directions
from entrometer.calculus.horizon import horizon_directions as horizon_directions
from entrometer.calculus.horizon import jackknife_horizons as jackknife_horizons
from entrometer.calculus.kernels import inner_products as inner_products
from entrometer.calculus.kernels import whiten as whiten
from entrometer.calculus.sketch import Sketch as Sketch
from entrometer.calculus.updates import HistorySplit as HistorySplit
from entrometer.calculus.updates import Update as Update
from entrometer.calculus.updates import clip_scale as clip_scale
from entrometer.calculus.updates import (
    identity_preconditioner as identity_preconditioner,
)
from entrometer.calculus.vectors import Vector as Vector
from entrometer.calculus.vectors import add as add
from entrometer.calculus.vectors import dot as dot
from entrometer.calculus.vectors import multiply as multiply
from entrometer.calculus.vectors import norm as norm
from entrometer.calculus.vectors import scale as scale
from entrometer.calculus.vectors import zeros_like as zeros_like
