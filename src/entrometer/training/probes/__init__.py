"""Instruments that measure a trainer's updates while it trains."""

from entrometer.training.probes.effective_sample_size import EffectiveSampleSize
from entrometer.training.probes.entropy import Entropy
from entrometer.training.probes.noise_scale import NoiseScale
from entrometer.training.probes.predicted_change import PredictedChange

__all__ = ["EffectiveSampleSize", "Entropy", "NoiseScale", "PredictedChange"]
