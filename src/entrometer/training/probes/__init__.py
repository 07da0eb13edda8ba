"""Instruments that measure a trainer's updates while it trains."""

from entrometer.training.probes.forecast import Forecast
from entrometer.training.probes.noise_scale import NoiseScale
from entrometer.training.probes.predicted_change import PredictedChange
from entrometer.training.probes.update_batch import (
    EffectiveSampleSize,
    Entropy,
    GroupSignal,
)

__all__ = [
    "EffectiveSampleSize",
    "Entropy",
    "Forecast",
    "GroupSignal",
    "NoiseScale",
    "PredictedChange",
]
