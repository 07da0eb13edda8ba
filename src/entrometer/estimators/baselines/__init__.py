"""Predictions of what is still to come, fitted on other prompts than they serve."""

from entrometer.estimators.baselines.features import constant_features, prefix_features
from entrometer.estimators.baselines.folds import fold_of
from entrometer.estimators.baselines.moving_average import PositionBaseline, PositionFit
from entrometer.estimators.baselines.ridge import RidgeBaseline, RidgeFit

__all__ = [
    "PositionBaseline",
    "PositionFit",
    "RidgeBaseline",
    "RidgeFit",
    "constant_features",
    "fold_of",
    "prefix_features",
]
