r"""Forecast of a training's entropy and reward at 2t and 4t from its first t steps.

The forecast reads the logged series alone. Entropy is continued by exponential decay to
a floor, in time relative to t, so the unit of time cancels: a training that takes ten
times as many steps along the same curve has the same forecast at 2t. The reward follows
from the entropy by the curve $R = -ae^h + b$ (arXiv 2505.22617), fitted to the same
steps.
"""

# Axes: N logged steps.

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from entrometer.estimators.decay import Decay
from entrometer.estimators.line import Line

LEAST_STEPS = 8
"""Steps with a known entropy, and with a known reward, that a forecast needs."""

LEAST_SPAN = 4
"""Last step relative to the first that a forecast needs: the steps after a resume alone
say nothing about the curve before."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What the forecast of a horizon takes from other trainings."""

    entropy: float
    """Standard deviation of log entropy between trainings."""
    reward: float
    """Standard deviation of the reward between trainings, relative to that of the
    rewards so far."""
    entropy_reach: float
    """Half width of the 95% interval of log entropy, in standard deviations."""
    reward_reach: float
    """Half width of the 95% interval of the reward, in standard deviations."""


SPREADS: Mapping[int, Spread] = MappingProxyType(
    {
        2: Spread(
            entropy=0.3808,
            reward=1.0885,
            entropy_reach=2.2023,
            reward_reach=2.08,
        ),
        4: Spread(
            entropy=0.4273,
            reward=1.3469,
            entropy_reach=1.9904,
            reward_reach=2.2458,
        ),
    }
)
"""By horizon, from the calibration part of `python -m benchmarks forecast`."""


@dataclass(frozen=True)
class Predicted:
    """A predicted value with its 95% prediction interval; NaN if it is not known."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def covers(self, observed: float) -> bool:
        """Return whether the interval contains a number."""
        return bool(self.low <= observed <= self.high)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Entropy and reward of the batch of a later step."""

    horizon: int
    """The later step relative to the last one logged."""
    step: int
    """The later step."""
    entropy: Predicted = Predicted()
    """Entropy of its batch, in nats per token."""
    reward: Predicted = Predicted()
    """Mean reward of its batch."""
    log_deviation: float = math.nan
    """Standard deviation of the predicted log entropy."""

    def probability_below(self, entropy: float) -> float:
        """Return the probability of an entropy below this one; NaN if not known."""
        if math.isnan(self.entropy.value) or not 0 < entropy < math.inf:
            return math.nan
        away = math.log(entropy / self.entropy.value)
        # Without any noise it is 0 or 1.
        return float(ndtr(away / max(self.log_deviation, 1e-12)))


@dataclass(frozen=True, eq=False)
class FittedCurves:
    """Curves of entropy and reward through the first t steps of a training."""

    last: int  #: t, the last step with a known entropy.
    entropy: Decay  #: Entropy in s/t.
    reward: Line | None  #: Reward in exp(entropy); None if it is not known.
    reward_deviation: float  #: Standard deviation of the rewards so far.
    largest_entropy: float  #: Largest entropy so far.

    def forecast(self, horizon: int, spread: Spread) -> Forecast:
        """Return the forecast at `horizon` times t."""
        u = float(horizon)
        path = self.entropy.variance(u) + spread.entropy**2
        deviation = math.sqrt(path + self.entropy.noise)
        reach = spread.entropy_reach * deviation
        entropy = np.exp(_interval(self.entropy.log_at(u), reach)).tolist()
        return Forecast(
            horizon=horizon,
            step=horizon * self.last,
            entropy=Predicted(*entropy),
            reward=self._reward(entropy[0], path, spread),
            log_deviation=deviation,
        )

    def _reward(self, h: float, path: float, spread: Spread) -> Predicted:
        if self.reward is None:
            return Predicted()
        # The curve says nothing about entropies above all that it was fitted to.
        h = min(h, self.largest_entropy)
        x = math.exp(h)
        variance = self.reward.noise + self.reward.variance(x)
        variance += (self.reward.slope * x * h) ** 2 * path
        variance += (spread.reward * self.reward_deviation) ** 2
        reach = spread.reward_reach * math.sqrt(variance)
        return Predicted(*_interval(self.reward.at(x), reach))


def fitted_curves(
    step: Float[np.ndarray, " N"],
    entropy: Float[np.ndarray, " N"],
    reward: Float[np.ndarray, " N"],
) -> FittedCurves | None:
    """Fit the curves; None with fewer than `LEAST_STEPS` known entropies.

    None too if these begin after a quarter of the training (`LEAST_SPAN`), or if no
    curve was found.

    Args:
        step: Numbers of the logged steps, from 1.
        entropy: Entropy of the batch of each step, in nats per token. A step whose
            entropy is not a positive number is left out.
        reward: Mean reward of the batch of each step; NaN if not known.
    """
    # Entropies of a model are below 100; beyond that, e^h would overflow.
    known = (step > 0) & np.isfinite(step) & (entropy > 0) & (entropy < 100)
    step, entropy, reward = step[known], entropy[known], reward[known]
    if step.size < LEAST_STEPS or step.max() < LEAST_SPAN * step.min():
        return None
    last = step.max()
    rewarded = np.isfinite(reward) & (np.abs(reward) < 1e100)
    deviation = float(reward[rewarded].std(ddof=1)) if rewarded.sum() > 1 else 0.0
    curve = None
    # Equal rewards so far, such as only 0, do not say how much later ones can differ.
    if rewarded.sum() >= LEAST_STEPS and np.ptp(reward[rewarded]) > 0:
        x, y = np.exp(entropy[rewarded]), reward[rewarded]
        curve = Line.fit(x, y)
    try:
        decay = Decay.fit(step / last, entropy)
    # A series that is far from any decay must not end the training that logs it.
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None
    return FittedCurves(
        last=int(last),
        entropy=decay,
        reward=curve,
        reward_deviation=deviation,
        largest_entropy=float(entropy.max()),
    )


def forecasts(
    step: Float[np.ndarray, " N"],
    entropy: Float[np.ndarray, " N"],
    reward: Float[np.ndarray, " N"],
    spreads: Mapping[int, Spread] = SPREADS,
) -> list[Forecast]:
    """Return a forecast for each horizon; none with too few steps.

    The arguments are those of `fitted_curves`.
    """
    curves = fitted_curves(step, entropy, reward)
    if curves is None:
        return []
    return [curves.forecast(horizon, spread) for horizon, spread in spreads.items()]


def _interval(value: float, reach: float) -> tuple[float, float, float]:
    return value, value - reach, value + reach
