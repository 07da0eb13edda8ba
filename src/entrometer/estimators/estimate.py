"""An estimate with its uncertainty, and the linearisation it comes from."""

# Axes: P prompts.

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators.prompt_sums import PromptSums


@dataclass(frozen=True)
class Estimate:
    """A number, how sure it is, and what it rests on."""

    value: float
    """The estimate."""

    standard_error: float
    """Its standard error, clustered by prompt; NaN where it is undefined."""

    low: float
    """Lower end of the 95% interval."""

    high: float
    """Upper end of the 95% interval."""

    effective_samples: float
    r"""$(\sum w)^2/\sum w^2$ of the sequence weights, in responses."""

    prompts: int
    """Number of prompts: of independent units."""

    largest_weight: float = 1.0
    """Largest importance weight of one response (1 where nothing is reweighted)."""

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
        """Estimate with the interval value ± t · standard error."""
        reach = t_quantile(degrees_of_freedom) * standard_error
        return cls(
            value=value,
            standard_error=standard_error,
            low=value - reach,
            high=value + reach,
            effective_samples=effective_samples,
            prompts=prompts,
            largest_weight=largest_weight,
        )

    def covers(self, truth: float) -> bool:
        """Whether the 95% interval contains a number."""
        return bool(self.low <= truth <= self.high)


@dataclass(frozen=True, eq=False)
class Linearised:
    r"""A smooth function of per-prompt sums, with the pull of each prompt on it.

    For $f(\sum_p x_p)$, homogeneous of degree 0 (any ratio or mean is), the pull is
    $\psi_p = \nabla f\cdot x_p$; pulls add up to 0 and
    $\mathrm{Var} f \approx \frac{P}{P-1}\sum_p\psi_p^2$: the delta method,
    clustered by prompt. Two of them on the same prompts subtract pairwise, so a
    difference carries only the noise that they do not share.
    """

    value: float
    """The estimate."""

    prompt: Int[np.ndarray, " P"]
    """Prompt ids, ascending."""

    pull: Float[np.ndarray, " P"]
    r"""$\psi_p$ of each prompt."""

    effective_samples: float
    """Effective number of responses."""

    largest_weight: float = 1.0
    """Largest importance weight of one response."""

    def __sub__(self, other: "Linearised") -> "Linearised":
        """The paired difference, on the same prompts."""
        if not np.array_equal(self.prompt, other.prompt):
            raise InvalidValue(
                f"expected two estimates on the same {self.prompt.size} prompts, got "
                f"another set of {other.prompt.size}; unpaired differences need the "
                "sum of the two variances"
            )
        return Linearised(
            value=self.value - other.value,
            prompt=self.prompt,
            pull=self.pull - other.pull,
            effective_samples=min(self.effective_samples, other.effective_samples),
            largest_weight=max(self.largest_weight, other.largest_weight),
        )

    def __rmul__(self, factor: float) -> "Linearised":
        """The estimate times a known number, such as a learning rate."""
        return Linearised(
            value=factor * self.value,
            prompt=self.prompt,
            pull=factor * self.pull,
            effective_samples=self.effective_samples,
            largest_weight=self.largest_weight,
        )

    @property
    def standard_error(self) -> float:
        r"""$\sqrt{\tfrac{P}{P-1}\sum\psi_p^2}$; NaN for a single prompt."""
        P = self.prompt.size
        if P < 2:
            return math.nan
        return math.sqrt(P / (P - 1) * float(self.pull @ self.pull))

    @property
    def degrees_of_freedom(self) -> float:
        r"""Degrees of freedom of the standard error, $\min(P-1,\ 2P/(\hat\kappa-1))$.

        $\hat\kappa$ is the kurtosis of the pulls: 3 for a normal one, and then it is
        $P - 1$. A few prompts with large pulls make the standard error itself
        uncertain, and the interval wider.
        """
        P, square = self.prompt.size, self.pull**2
        variation = P * float(square @ square) - float(square.sum()) ** 2
        if variation <= 0:
            return float(P - 1)
        return min(float(P - 1), 2 * P * float(square.sum()) ** 2 / variation)

    def estimate(self) -> Estimate:
        """Value with its 95% interval, Student's t on `degrees_of_freedom`.

        With few prompts the interval of a skewed quantity, such as a change weighted
        by whole sequences, covers somewhat less than it says; `python -m benchmarks
        coverage` prints by how much at 24 prompts beside its limits at 96.
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
    r"""A function of the totals, given its value and its slope in each column.

    $\psi_p = \sum_m \frac{\partial f}{\partial X_m} x_{pm}$ with $X_m=\sum_p x_{pm}$.
    """
    pull = np.zeros(sums.prompts)
    for column, slope in slopes.items():
        pull += slope * sums.of_prompts(column)
    return Linearised(
        value=value,
        prompt=sums.prompt,
        pull=pull,
        effective_samples=effective_samples(sums),
        largest_weight=sums.largest_weight,
    )


def effective_samples(sums: PromptSums) -> float:
    r"""$(\sum w)^2/\sum w^2$ over responses; their number where no weights are."""
    if "w" not in sums.columns:
        return sums.total("responses")
    return sums.total("w") ** 2 / sums.total("w2")


def t_quantile(degrees_of_freedom: float, level: float = 0.95) -> float:
    """Two-sided Student quantile; NaN below one degree of freedom."""
    if degrees_of_freedom < 1:
        return math.nan
    return float(stats.t.ppf(0.5 + level / 2, degrees_of_freedom))
