"""Expected change over a training's next update batches, from several of them."""

# Axes: K update batches, Q units of the evaluation batch (prompts, or folds of them).

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, t_quantile


@dataclass(frozen=True)
class TwoWay:
    r"""Mean change over update batches and over evaluation units, both sampled.

    Its error has both sources: other batches would be drawn, and other prompts would
    be evaluated. NaN ends: the batches do not differ at all, so there is no verdict.
    """

    expected: Estimate
    """Expected change of a batch, with the interval for that expectation."""
    next_low: float
    next_high: float
    """Ends of the 95% interval for the change that the next batch makes."""
    degrees_of_freedom: float
    batch_variance: float
    r"""$s_U^2$, the variance over batches of a batch's change."""
    evaluation_variance: float
    r"""$s_E^2/Q$, the part of the evaluation batch in the variance of the mean."""
    batches: int

    @property
    def p_value(self) -> float:
        """Two-sided p-value of "the expected change is 0"; NaN without a verdict."""
        t = self.expected.value / (self.expected.standard_error or math.nan)
        return float(2 * stats.t.sf(abs(t), self.degrees_of_freedom))

    @property
    def sign_probability(self) -> float:
        """Probability that the expected change has the sign of its estimate.

        One minus half the p-value: the share of the t-distribution around the estimate
        that is on its side of 0.
        """
        return 1 - self.p_value / 2


def two_way(cells: Float[np.ndarray, "K Q"], *, prompts: int = 0) -> TwoWay:
    r"""Return the mean of a table of changes, batch by evaluation unit.

    The units of a row average to the change by that batch. With the mean squares
    $s_U^2$ of the K row means, $s_E^2$ of the Q column means and $s_{EU}^2$ of the
    interaction,
    $$\mathrm{Var}\,\hat\mu = \max\Big(\frac{s_U^2}{K} + \frac{s_E^2}{Q}
      - \frac{s_{EU}^2}{KQ},\ \frac{s_U^2}{K},\ \frac{s_E^2}{Q}\Big).$$
    Row and column means both contain the interaction, hence it is subtracted once; the
    floor keeps a noisy interaction from making the interval too short. The change of
    the next batch varies by $s_U^2$ more. Student's t has the degrees of freedom
    $\mathrm{Var}^2/((s_U^2/K)^2/\nu_U + (s_E^2/Q)^2/\nu_E)$, where
    $\nu = 2/(k^+/m + 2/(m-1))$ for m values with the positive excess kurtosis $k^+$:
    batches without signal make heavy tails.

    `prompts`: evaluation prompts, if the units are folds of them.
    """
    K, Q = cells.shape
    if K < 2 or Q < 2:
        raise InvalidValue(
            f"expected at least 2 update batches and 2 evaluation units, got {K} and "
            f"{Q}; give --batches 8, or more --prompts"
        )
    row, column, mean = cells.mean(axis=1), cells.mean(axis=0), float(cells.mean())
    rest = cells - row[:, None] - column + mean
    interaction = float((rest**2).sum()) / ((K - 1) * (Q - 1))
    by_batch, by_unit = float(row.var(ddof=1)), float(column.var(ddof=1))
    U, E = by_batch / K, by_unit / Q
    variance = max(U + E - interaction / (K * Q), U, E)

    def reach(extra: float) -> tuple[float, float]:
        total = variance + extra
        spread = (U + extra) ** 2 / _freedom(row) + E**2 / _freedom(column)
        # A variance of 0 over batches is no certainty, but a pool without signal.
        freedom = max(1.0, total**2 / spread) if spread and by_batch else math.nan
        return t_quantile(freedom) * math.sqrt(total), freedom

    (around, freedom), (ahead, _) = reach(0.0), reach(by_batch)
    expected = Estimate(
        value=mean,
        standard_error=math.sqrt(variance) if by_batch else math.nan,
        low=mean - around,
        high=mean + around,
        effective_samples=float(K),
        prompts=prompts or Q,
    )
    ends = (mean - ahead, mean + ahead)
    return TwoWay(expected, *ends, freedom, by_batch, E, K)


def smallest_seen(batches: int, *, power: float = 0.8) -> float:
    r"""Return the smallest expected change that is told from 0 with this probability.

    $(t_{0.975} + t_\text{power})/\sqrt K$ with Student's quantiles on K - 1 degrees of
    freedom, in units of the standard deviation of a single batch's change; evaluation
    prompts are taken to add no noise.
    """
    if batches < 2:
        return math.inf
    t = np.asarray(stats.t.ppf([0.975, power], batches - 1))
    return float(t.sum() / math.sqrt(batches))


def pseudo_values(
    whole: Float[np.ndarray, "..."], without: Float[np.ndarray, "K ..."]
) -> Float[np.ndarray, "K ..."]:
    r"""Return the jackknife's values of each batch, whose mean is the whole's.

    $\theta - (K-1)(\theta_{-b} - \overline{\theta_{-}})$ with $\theta_{-b}$ without
    batch b: their variance over K is the jackknife's, also of what is no mean.
    """
    rest = without - without.mean(axis=0)
    return np.asarray(whole - (len(without) - 1) * rest)


def advised(p_values: Sequence[float], *, rate: float = 0.05) -> list[bool]:
    """Return which of many tests pass: Benjamini and Hochberg's false discovery rate.

    At most this share of the passed ones is expected to be false. NaN never passes, and
    counts as a test.
    """
    p = np.nan_to_num(np.asarray(p_values, float), nan=1.0)
    if not p.size:
        return []
    adjusted = stats.false_discovery_control(p)
    return [bool(x) for x in adjusted <= rate]


def _freedom(x: Float[np.ndarray, " _"]) -> float:
    """Return the degrees of freedom of a sample variance, less for heavy tails."""
    z = x - x.mean()
    square = float((z**2).mean())
    excess = max(float((z**4).mean()) / square**2 - 3, 0.0) if square else 0.0
    return 2 / (excess / x.size + 2 / (x.size - 1))
