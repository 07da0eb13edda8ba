"""Passes over the model: rollouts in, per-token tables and gradient vectors out."""

from entrometer.passes.batches import TOKEN_BUDGET, Batch, batches, layout
from entrometer.passes.forward import (
    Concentration,
    concentration,
    forward,
    forward_along,
)
from entrometer.passes.head import (
    HeadCurvatures,
    HeadGradient,
    HeadTangents,
    VocabularyHead,
)
from entrometer.passes.jvp import Jvp2Pass, JvpPass, jvp, jvp2
from entrometer.passes.per_sequence import GradientRows, per_sequence
from entrometer.passes.vjp import VjpPass, VjpsPass, vjp, vjps

__all__ = [
    "TOKEN_BUDGET",
    "Batch",
    "Concentration",
    "GradientRows",
    "HeadCurvatures",
    "HeadGradient",
    "HeadTangents",
    "Jvp2Pass",
    "JvpPass",
    "VjpPass",
    "VjpsPass",
    "VocabularyHead",
    "batches",
    "concentration",
    "forward",
    "forward_along",
    "jvp",
    "jvp2",
    "layout",
    "per_sequence",
    "vjp",
    "vjps",
]
