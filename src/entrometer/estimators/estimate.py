"""Estimates with their standard errors and confidence intervals."""

# Axes: P prompts.

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators.prompt_sums import PromptSums


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error, confidence interval and sample size."""

    value: float
    standard_error: float
    """Standard error, clustered by prompt; NaN where it is undefined."""
    low: float
    high: float
    """Ends of the 95% interval."""
    effective_samples: float
    r"""$(\sum w)^2/\sum w^2$ if reweighted; else the number of responses or prompts."""
    prompts: int
    """Number of prompts, the independent units."""
    largest_weight: float = 1.0
    """Largest importance weight of a response (1 where nothing is reweighted)."""

    @classmethod
    def symmetric(
        cls,
        value: float,
        standard_error: float,
        *,
        degrees_of_freedom: float,
        effective_samples: float,
        prompts: int,
        largest_weight: float = 1.0,
    ) -> "Estimate":
        """Return the estimate with the interval value ± t · standard error."""
        reach = t_quantile(degrees_of_freedom) * standard_error
        low, high = value - reach, value + reach
        sample = (effective_samples, prompts, largest_weight)
        return cls(value, standard_error, low, high, *sample)

    def covers(self, truth: float) -> bool:
        """Return whether the 95% interval contains a number."""
        return bool(self.low <= truth <= self.high)


@dataclass(frozen=True, eq=False)
class Linearised:
    r"""An estimate from per-prompt sums, with the influence of each prompt on it.

    For $f(\sum_p x_p)$, homogeneous of degree 0 (any ratio or mean is), the influence
    is $\psi_p = \nabla f\cdot x_p$. The $\psi_p$ add up to 0 and
    $\mathrm{Var} f \approx \frac{P}{P-1}\sum_p\psi_p^2$: the delta method,
    clustered by prompt. Two estimates on the same prompts subtract prompt by prompt,
    so their difference has only the noise that they do not share.
    """

    value: float
    prompt: Int[np.ndarray, " P"]
    """Prompt ids, ascending."""
    prompt_influence: Float[np.ndarray, " P"]
    r"""$\psi_p$ of each prompt."""
    effective_samples: float
    """Effective number of responses."""
    largest_weight: float = 1.0
    """Largest importance weight of a response."""

    def __sub__(self, other: "Linearised") -> "Linearised":
        """Return the paired difference of two estimates on the same prompts."""
        if not np.array_equal(self.prompt, other.prompt):
            raise InvalidValue(
                f"expected two estimates on the same {self.prompt.size} prompts, got "
                f"a different set of {other.prompt.size}; evaluate both on one batch, "
                "or add the variances of two independent ones"
            )
        return replace(
            self,
            value=self.value - other.value,
            prompt_influence=self.prompt_influence - other.prompt_influence,
            effective_samples=min(self.effective_samples, other.effective_samples),
            largest_weight=max(self.largest_weight, other.largest_weight),
        )

    def __rmul__(self, factor: float) -> "Linearised":
        """Return the estimate times a known number, such as a learning rate."""
        psi = factor * self.prompt_influence
        return replace(self, value=factor * self.value, prompt_influence=psi)

    def padded(self, prompt: Int[np.ndarray, " M"]) -> "Linearised":
        """Return the estimate on a larger set of prompts, ids ascending.

        A prompt that it was not measured on has no influence on it: 0.
        """
        influence = np.zeros(prompt.size)
        influence[np.searchsorted(prompt, self.prompt)] = self.prompt_influence
        return replace(self, prompt=prompt, prompt_influence=influence)

    @property
    def standard_error(self) -> float:
        r"""$\sqrt{\tfrac{P}{P-1}\sum\psi_p^2}$; NaN for a single prompt."""
        P, psi = self.prompt.size, self.prompt_influence
        return math.sqrt(P / (P - 1) * float(psi @ psi)) if P > 1 else math.nan

    @property
    def degrees_of_freedom(self) -> float:
        r"""Degrees of freedom of the standard error, $\min(P-1,\ 2P/(\hat\kappa-1))$.

        $\hat\kappa$ is the kurtosis of the $\psi_p$; at 3, the normal distribution's,
        the result is $P - 1$. A few prompts with large influence make the standard
        error itself uncertain, which widens the interval.
        """
        P, square = self.prompt.size, self.prompt_influence**2
        variation = P * float(square @ square) - float(square.sum()) ** 2
        if variation <= 0:
            return float(P - 1)
        return min(float(P - 1), 2 * P * float(square.sum()) ** 2 / variation)

    def estimate(self) -> Estimate:
        """Return the value with its 95% interval, Student's t on `degrees_of_freedom`.

        With few prompts the interval of a skewed quantity covers somewhat less than
        95%; `python -m benchmarks coverage` prints by how much.
        """
        return Estimate.symmetric(
            self.value,
            self.standard_error,
            degrees_of_freedom=self.degrees_of_freedom,
            effective_samples=self.effective_samples,
            prompts=self.prompt.size,
            largest_weight=self.largest_weight,
        )


def linearise(
    sums: PromptSums, value: float, slopes: Mapping[str, float]
) -> Linearised:
    r"""Return an estimate, given its value and its slope in the total of each column.

    $\psi_p = \sum_m \frac{\partial f}{\partial X_m} x_{pm}$ with $X_m=\sum_p x_{pm}$.
    """
    psi = np.zeros(sums.prompts)
    for column, slope in slopes.items():
        psi += slope * sums.of_prompts(column)
    return of_prompts(sums, value, psi)


def of_prompts(
    sums: PromptSums, value: float, psi: Float[np.ndarray, " P"]
) -> Linearised:
    """Return `value` as an estimate; `psi` is the influence of each of its prompts."""
    weights = (effective_samples(sums), sums.largest_weight)
    return Linearised(value, sums.prompt, psi, *weights)


def jackknife(value: float, without: Float[np.ndarray, " P"]) -> Estimate:
    r"""Return the estimate with the variance $\frac{P-1}{P}\sum(\theta_{-p}-\theta)^2$.

    `without` has $\theta_{-p}$, the value without prompt p; a NaN there makes the error
    NaN. For a mean over pairs of prompts the variance is on average never too small.
    """
    P = without.size
    if P < 2:
        raise InvalidValue(
            f"expected at least 2 prompts to leave one out, got {P}; add prompts"
        )
    return Estimate.symmetric(
        value,
        float(np.sqrt((P - 1) / P * float(((without - value) ** 2).sum()))),
        degrees_of_freedom=float(P - 1),
        effective_samples=float(P),
        prompts=P,
    )


def effective_samples(sums: PromptSums) -> float:
    r"""Return $(\sum w)^2/\sum w^2$ over responses, or without weights their number."""
    if "w" not in sums.columns:
        return sums.total("responses")
    # Weights that all underflow are worth no response.
    squares = sums.total("w2")
    return sums.total("w") ** 2 / squares if squares else 0.0


def t_quantile(degrees_of_freedom: float, level: float = 0.95) -> float:
    """Return the two-sided Student quantile; NaN below one degree of freedom."""
    # Written so that NaN fails too.
    if not degrees_of_freedom >= 1:
        return math.nan
    return float(stats.t.ppf(0.5 + level / 2, degrees_of_freedom))


def fieller_magnitude(
    a: float, b: float, *, var_a: float, var_b: float, cov: float, t: float
) -> tuple[float, float]:
    r"""Return Fieller's confidence interval of $|\rho| = |a/b|$.

    The set is $(a-\rho b)^2 \le t^2(\sigma_a^2 - 2\rho\sigma_{ab} + \rho^2\sigma_b^2)$,
    a quadratic in $\rho$. If b is compatible with 0, the interval has no upper end; if
    a is too, it is $(0, \infty)$.
    """
    aa, ab, bb = a * a - t * t * var_a, a * b - t * t * cov, b * b - t * t * var_b
    if not all(map(math.isfinite, (aa, ab, bb))):
        return math.nan, math.nan
    root = math.sqrt(max(ab * ab - aa * bb, 0.0))
    # ρ = 0 is in the set if a itself is compatible with 0.
    holds_zero = aa <= 0
    if bb > 0:
        ends = sorted(abs((ab + sign * root) / bb) for sign in (-1, 1))
        return (0.0 if holds_zero else ends[0]), ends[1]
    if holds_zero or bb == 0:
        return 0.0, math.inf
    return min(abs((ab + sign * root) / bb) for sign in (-1, 1)), math.inf


def sample_size_ratio(one: Linearised, other: Linearised) -> Estimate:
    r"""Return how many times as many prompts `one` needs for the error of `other`.

    $F = \sum_p\psi_p^2/\sum_p\phi_p^2$ with the influences $\psi$ and $\phi$ of the
    same prompts on the two. The interval is that of $\log F$, on which prompt p has
    the influence $\psi_p^2/\sum\psi^2 - \phi_p^2/\sum\phi^2$.
    """
    difference = one - other
    a, b = one.prompt_influence**2, other.prompt_influence**2
    if not b.sum() > 0:
        ratio = math.nan if not a.sum() > 0 else math.inf
        return Estimate(ratio, math.nan, math.nan, math.nan, ratio, one.prompt.size)
    F = float(a.sum() / b.sum())
    log_F = Linearised(
        value=math.log(F) if F > 0 else -math.inf,
        prompt=one.prompt,
        prompt_influence=a / max(a.sum(), np.finfo(float).tiny) - b / b.sum(),
        effective_samples=difference.effective_samples,
    ).estimate()
    ends = (math.exp(log_F.low), math.exp(log_F.high))
    sample = (difference.effective_samples, one.prompt.size)
    return Estimate(F, F * log_F.standard_error, *ends, *sample)
