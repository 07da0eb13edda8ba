"""NumPy and SciPy only: token tables in, estimates with their uncertainty out."""

from entrometer.estimators.agreement import Agreement as Agreement
from entrometer.estimators.agreement import agreement as agreement
from entrometer.estimators.baselines import PositionBaseline as PositionBaseline
from entrometer.estimators.baselines import PositionFit as PositionFit
from entrometer.estimators.baselines import RidgeBaseline as RidgeBaseline
from entrometer.estimators.baselines import RidgeFit as RidgeFit
from entrometer.estimators.baselines import constant_features as constant_features
from entrometer.estimators.baselines import fold_of as fold_of
from entrometer.estimators.baselines import prefix_features as prefix_features
from entrometer.estimators.collapse import collapse_ahead as collapse_ahead
from entrometer.estimators.collapse import entropy_floor as entropy_floor
from entrometer.estimators.collapse import has_collapsed as has_collapsed
from entrometer.estimators.collapse import soonest as soonest
from entrometer.estimators.decay import Decay as Decay
from entrometer.estimators.entropy_change import Per as Per
from entrometer.estimators.entropy_change import Weighting as Weighting
from entrometer.estimators.entropy_change import change_statistics as change_statistics
from entrometer.estimators.entropy_change import entropy as entropy
from entrometer.estimators.entropy_change import entropy_change as entropy_change
from entrometer.estimators.entropy_change import (
    entropy_statistics as entropy_statistics,
)
from entrometer.estimators.estimate import Estimate as Estimate
from entrometer.estimators.estimate import Linearised as Linearised
from entrometer.estimators.estimate import sample_size_ratio as sample_size_ratio
from entrometer.estimators.forecast import FittedCurves as FittedCurves
from entrometer.estimators.forecast import Forecast as Forecast
from entrometer.estimators.forecast import Predicted as Predicted
from entrometer.estimators.forecast import Spread as Spread
from entrometer.estimators.forecast import fitted_curves as fitted_curves
from entrometer.estimators.forecast import forecasts as forecasts
from entrometer.estimators.gradient_products import TwoBatchVariance as TwoBatchVariance
from entrometer.estimators.gradient_products import UStatistic as UStatistic
from entrometer.estimators.gradient_products import two_batch_term as two_batch_term
from entrometer.estimators.gradient_products import (
    two_batch_variance as two_batch_variance,
)
from entrometer.estimators.gradient_products import u_statistic as u_statistic
from entrometer.estimators.influence import FoldContributions as FoldContributions
from entrometer.estimators.influence import Influence as Influence
from entrometer.estimators.influence import influence_parts as influence_parts
from entrometer.estimators.influence import summed as summed
from entrometer.estimators.influence import token_influence as token_influence
from entrometer.estimators.line import Line as Line
from entrometer.estimators.linear_term import GradientWeights as GradientWeights
from entrometer.estimators.linear_term import (
    entropy_gradient_weights as entropy_gradient_weights,
)
from entrometer.estimators.linear_term import (
    length_gradient_weights as length_gradient_weights,
)
from entrometer.estimators.linear_term import linear_statistics as linear_statistics
from entrometer.estimators.linear_term import linear_term as linear_term
from entrometer.estimators.noise_scale import noise_scale as noise_scale
from entrometer.estimators.noise_scale import noise_scale_moments as noise_scale_moments
from entrometer.estimators.pass_at_k import pass_at_k as pass_at_k
from entrometer.estimators.pass_at_k import share_estimate as share_estimate
from entrometer.estimators.prompt_sums import PromptSums as PromptSums
from entrometer.estimators.prompt_sums import scatter as scatter
from entrometer.estimators.prompt_sums import synthetic_batches as synthetic_batches
from entrometer.estimators.quadratic_term import PowerLaw as PowerLaw
from entrometer.estimators.quadratic_term import linear_regime as linear_regime
from entrometer.estimators.quadratic_term import power_law as power_law
from entrometer.estimators.quadratic_term import (
    quadratic_statistics as quadratic_statistics,
)
from entrometer.estimators.quadratic_term import quadratic_term as quadratic_term
from entrometer.estimators.responses import Baseline as Baseline
from entrometer.estimators.responses import Curvatures as Curvatures
from entrometer.estimators.responses import Responses as Responses
from entrometer.estimators.responses import Tables as Tables
from entrometer.estimators.responses import Tangents as Tangents
from entrometer.estimators.responses import (
    importance_weights as importance_weights,
)
from entrometer.estimators.reward_change import reward_change as reward_change
from entrometer.estimators.reward_change import (
    reward_change_statistics as reward_change_statistics,
)
from entrometer.estimators.reward_change import (
    reward_gradient_weights as reward_gradient_weights,
)
from entrometer.estimators.reward_change import (
    reward_slope_statistics as reward_slope_statistics,
)
from entrometer.estimators.two_way import TwoWay as TwoWay
from entrometer.estimators.two_way import advised as advised
from entrometer.estimators.two_way import pseudo_values as pseudo_values
from entrometer.estimators.two_way import smallest_seen as smallest_seen
from entrometer.estimators.two_way import two_way as two_way
from entrometer.estimators.without_folds import by_fold as by_fold
from entrometer.estimators.without_folds import held_out_sums as held_out_sums
from entrometer.estimators.without_folds import over_folds as over_folds
from entrometer.estimators.without_folds import replicates as replicates
from entrometer.estimators.without_folds import variance_of_rest as variance_of_rest
