"""NumPy only: tables in, estimates with their uncertainty out."""

from entrometer.estimators.baselines import (
    PositionBaseline,
    PositionFit,
    RidgeBaseline,
    RidgeFit,
    constant_features,
    fold_of,
    prefix_features,
)
from entrometer.estimators.entropy_change import (
    Per,
    Weighting,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
)
from entrometer.estimators.estimate import Estimate, Linearised, sample_size_ratio
from entrometer.estimators.gradient_products import (
    TwoBatchVariance,
    UStatistic,
    two_batch_term,
    two_batch_variance,
    u_statistic,
)
from entrometer.estimators.influence import (
    FoldContributions,
    Influence,
    influence_parts,
    summed,
    token_influence,
)
from entrometer.estimators.linear_term import (
    GradientWeights,
    entropy_gradient_weights,
    length_gradient_weights,
    linear_statistics,
    linear_term,
)
from entrometer.estimators.noise_scale import noise_scale, noise_scale_moments
from entrometer.estimators.pass_at_k import pass_at_k, share_estimate
from entrometer.estimators.prompt_sums import PromptSums, scatter, synthetic_batches
from entrometer.estimators.quadratic_term import (
    PowerLaw,
    linear_regime,
    power_law,
    quadratic_statistics,
    quadratic_term,
)
from entrometer.estimators.responses import (
    Baseline,
    Curvatures,
    Responses,
    Tables,
    Tangents,
)
from entrometer.estimators.reward_change import (
    reward_change,
    reward_change_statistics,
    reward_gradient_weights,
    reward_slope_statistics,
)

__all__ = [
    "Baseline",
    "Curvatures",
    "Estimate",
    "FoldContributions",
    "GradientWeights",
    "Influence",
    "Linearised",
    "Per",
    "PositionBaseline",
    "PositionFit",
    "PowerLaw",
    "PromptSums",
    "Responses",
    "RidgeBaseline",
    "RidgeFit",
    "Tables",
    "Tangents",
    "TwoBatchVariance",
    "UStatistic",
    "Weighting",
    "change_statistics",
    "constant_features",
    "entropy",
    "entropy_change",
    "entropy_gradient_weights",
    "entropy_statistics",
    "fold_of",
    "influence_parts",
    "length_gradient_weights",
    "linear_regime",
    "linear_statistics",
    "linear_term",
    "noise_scale",
    "noise_scale_moments",
    "pass_at_k",
    "power_law",
    "prefix_features",
    "quadratic_statistics",
    "quadratic_term",
    "reward_change",
    "reward_change_statistics",
    "reward_gradient_weights",
    "reward_slope_statistics",
    "sample_size_ratio",
    "scatter",
    "share_estimate",
    "summed",
    "synthetic_batches",
    "token_influence",
    "two_batch_term",
    "two_batch_variance",
    "u_statistic",
]
