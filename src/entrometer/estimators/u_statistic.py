"""The linear term from a single batch that serves as direction and as gradient."""

# Axes: B prompts.

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate


@dataclass(frozen=True, eq=False)
class UStatistic:
    r"""$U = \frac{1}{B(B-1)}\sum_{n\ne m}X_n\cdot Y_m$ and its Hoeffding parts."""

    value: float
    r"""$U$; the change of entropy is $\delta\mathcal H_1 = -\eta U$."""

    rows: Float[np.ndarray, " B"]
    r"""$r_n = \frac12(X_n\cdot\bar Y_{-n} + Y_n\cdot\bar X_{-n})$; their mean is U."""

    zeta_1: float
    r"""Variance of $\mathrm E[\phi\,|\,n]$, the part a single prompt decides, with
    $\phi_{nm} = \frac12(X_n\cdot Y_m + X_m\cdot Y_n)$; estimated without bias."""

    zeta_2: float
    """Variance of the part that only pairs decide; estimated without bias."""

    @property
    def hoeffding_variance(self) -> float:
        r"""$\mathrm{Var}\,U = 4\zeta_1/B + 2\zeta_2/(B(B-1))$, without bias."""
        B = self.rows.size
        return 4 * self.zeta_1 / B + 2 * self.zeta_2 / (B * (B - 1))

    @property
    def hoeffding_standard_error(self) -> float:
        """Return the square root of the Hoeffding variance; NaN if that is negative.

        An unbiased estimate of a small variance is negative now and then. A standard
        error of 0 would claim that the statistic is exact.
        """
        variance = self.hoeffding_variance
        return math.sqrt(variance) if variance >= 0 else math.nan

    @property
    def leave_one_out(self) -> Float[np.ndarray, " B"]:
        r"""$U_{(-n)} = (BU - 2r_n)/(B - 2)$, the statistic without prompt n."""
        B = self.rows.size
        return (B * self.value - 2 * self.rows) / (B - 2)

    @property
    def jackknife_variance(self) -> float:
        r"""$\frac{B-1}{B}\sum_n(U_{(-n)} - U)^2$: in the mean never too small."""
        B = self.rows.size
        return (B - 1) / B * float(((self.leave_one_out - self.value) ** 2).sum())

    def estimate(self) -> Estimate:
        """U with its interval, by the jackknife: it errs on the wide side."""
        B = self.rows.size
        return Estimate.symmetric(
            self.value,
            float(np.sqrt(self.jackknife_variance)),
            degrees_of_freedom=float(B - 1),
            effective_samples=float(B),
            prompts=B,
        )


def u_statistic(products: Float[np.ndarray, "B B"]) -> UStatistic:
    r"""U-statistic over prompts from all products $X_n\cdot Y_m$ of one batch.

    $X_n = \overline{(S_g - \bar S_{-g})\nabla S_g}$ over the responses of prompt n and
    $Y_n = \frac{1}{L G}\sum_g A_g\nabla S_g$. Own products $X_n\cdot Y_n$ are left out:
    they are what makes the plain $\bar X\cdot\bar Y$ biased.

    $\zeta$ by analysis of variance of the pairs: residuals of $\phi_{nm}$ after the
    effects $a_n = \frac{B-1}{B-2}(r_n - U)$ have $B(B-3)/2$ degrees of freedom and the
    mean square $\zeta_2$; then $\zeta_1 = \mathrm{var}(a_n) - \zeta_2/(B-2)$.
    """
    B = products.shape[0]
    if B < 4:
        raise InvalidValue(
            f"expected at least 4 prompts, got {B}; fewer leave no degree of freedom "
            "for the variance of pairs"
        )
    g = np.asarray(products, np.float64)
    phi = (g + g.T) / 2
    np.fill_diagonal(phi, 0.0)
    r = phi.sum(axis=1) / (B - 1)
    U = float(r.mean())
    a = (B - 1) / (B - 2) * (r - U)
    residual = phi - U - a[:, None] - a[None, :]
    np.fill_diagonal(residual, 0.0)
    zeta_2 = float((residual**2).sum()) / (B * (B - 3))
    zeta_1 = float(a.var(ddof=1)) - zeta_2 / (B - 2)
    return UStatistic(value=U, rows=r, zeta_1=zeta_1, zeta_2=zeta_2)
