"""The linear term and its variance, from products of per-prompt gradients."""

# Axes: E prompts of the evaluation batch, U of the update batch, B of one shared batch.

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, jackknife


@dataclass(frozen=True)
class TwoBatchVariance:
    r"""Variance of $\bar X\cdot\bar Y$ by source; the last three add up to `total`."""

    given_update: float
    r"""$\bar Y^\top\hat\Sigma_X\bar Y/B_E$: variance over E alone, at this update."""
    evaluation: float
    r"""$V_X = \mu_Y^\top\Sigma_X\mu_Y/B_E$, unbiased."""
    update: float
    r"""$V_Y = \mu_X^\top\Sigma_Y\mu_X/B_U$, unbiased."""
    both: float
    r"""$V_{XY} = \mathrm{Tr}[\Sigma_X\Sigma_Y]/(B_E B_U)$."""

    @property
    def total(self) -> float:
        """Variance over both batches."""
        return self.evaluation + self.update + self.both


def two_batch_variance(products: Float[np.ndarray, "E U"]) -> TwoBatchVariance:
    r"""Return $\mathrm{Var}(\bar X\cdot\bar Y)$ by source, from all $X_n\cdot Y_m$.

    $X_n$ are the per-prompt terms of $\nabla h$, $Y_m$ those of the update; only their
    products enter, never a vector of the size of the parameters.

    With sample means in place of $\mu$, $\sum_n(\bar Y\cdot(X_n-\bar X))^2/
    (B_E(B_E-1))$ has the mean $V_X + V_{XY}$, because $\bar Y$ is noisy too; the same
    with X and Y exchanged. So $V_{XY}$ is subtracted from each: the two plug-in terms
    plus $V_{XY}$ would count it three times.
    """
    B_E, B_U = products.shape
    if min(B_E, B_U) < 2:
        raise InvalidValue(
            f"expected at least 2 prompts in each batch, got {B_E} and {B_U}; add "
            "prompts to the smaller one"
        )
    g = np.asarray(products, np.float64)
    along_Y, along_X = g.mean(axis=1), g.mean(axis=0)
    plug_in_X = float(along_Y.var(ddof=1)) / B_E
    plug_in_Y = float(along_X.var(ddof=1)) / B_U
    centred = g - along_Y[:, None] - along_X[None, :] + g.mean()
    trace = float((centred**2).sum()) / ((B_E - 1) * (B_U - 1))
    both = trace / (B_E * B_U)
    return TwoBatchVariance(plug_in_X, plug_in_X - both, plug_in_Y - both, both)


def two_batch_term(
    products: Float[np.ndarray, "E U"], *, given_update: bool = False
) -> Estimate:
    r"""Return $\bar X\cdot\bar Y$ with its interval, over both batches or over E alone.

    `products` are as in `two_batch_variance`. If noise swamps both means, the unbiased
    total can fall below `both`, or below 0; the interval then uses `both`.
    """
    V = two_batch_variance(products)
    variance = V.given_update if given_update else max(V.total, V.both)
    prompts = products.shape[0] if given_update else min(products.shape)
    return Estimate.symmetric(
        float(products.mean()),
        float(np.sqrt(variance)),
        degrees_of_freedom=float(prompts - 1),
        effective_samples=float(products.shape[0]),
        prompts=prompts,
    )


@dataclass(frozen=True, eq=False)
class UStatistic:
    r"""$U = \frac{1}{B(B-1)}\sum_{n\ne m}X_n\cdot Y_m$, with Hoeffding components."""

    value: float
    r"""$U$; the change of entropy is $\delta\mathcal H_1 = -\eta U$."""
    rows: Float[np.ndarray, " B"]
    r"""$r_n = \frac12(X_n\cdot\bar Y_{-n} + Y_n\cdot\bar X_{-n})$; their mean is U."""
    zeta_1: float
    r"""Variance of $\mathrm E[\phi\,|\,n]$, the component due to single prompts, with
    $\phi_{nm} = \frac12(X_n\cdot Y_m + X_m\cdot Y_n)$; unbiased."""
    zeta_2: float
    """Variance of the component due to pairs of prompts; unbiased."""

    @property
    def hoeffding_variance(self) -> float:
        r"""$\mathrm{Var}\,U = 4\zeta_1/B + 2\zeta_2/(B(B-1))$, unbiased."""
        B = self.rows.size
        return 4 * self.zeta_1 / B + 2 * self.zeta_2 / (B * (B - 1))

    @property
    def hoeffding_standard_error(self) -> float:
        """Return the square root of the Hoeffding variance; NaN if that is negative.

        An unbiased estimate of a small variance is sometimes negative. A standard
        error of 0 would claim that the statistic is exact.
        """
        variance = self.hoeffding_variance
        return math.sqrt(variance) if variance >= 0 else math.nan

    @property
    def leave_one_out(self) -> Float[np.ndarray, " B"]:
        r"""The statistic without prompt n, $(BU - 2r_n)/(B - 2)$; `rows` has $r_n$."""
        B = self.rows.size
        return (B * self.value - 2 * self.rows) / (B - 2)

    @property
    def jackknife_variance(self) -> float:
        r"""$\frac{B-1}{B}\sum_n(U_{(-n)} - U)^2$: on average never too small."""
        B = self.rows.size
        return (B - 1) / B * float(((self.leave_one_out - self.value) ** 2).sum())

    def estimate(self) -> Estimate:
        """Return U with its jackknife interval, which is conservative."""
        return jackknife(self.value, self.leave_one_out)


def u_statistic(products: Float[np.ndarray, "B B"]) -> UStatistic:
    r"""Return the U-statistic over prompts from all products $X_n\cdot Y_m$ of a batch.

    $X_n = \overline{(S_g - \bar S_{-g})\nabla S_g}$ over the responses to prompt n and
    $Y_n = \frac{1}{L G}\sum_g A_g\nabla S_g$. Products of a prompt with itself,
    $X_n\cdot Y_n$, are left out: they bias the plain $\bar X\cdot\bar Y$.

    $\zeta$ comes from an analysis of variance of the pairs: the residuals of
    $\phi_{nm}$ after the effects $a_n = \frac{B-1}{B-2}(r_n - U)$ have $B(B-3)/2$
    degrees of freedom and the mean square $\zeta_2$; then
    $\zeta_1 = \mathrm{var}(a_n) - \zeta_2/(B-2)$.
    """
    B = products.shape[0]
    if B < 4:
        raise InvalidValue(
            f"expected at least 4 prompts, got {B}; with fewer, the variance of pairs "
            "has no degree of freedom: add prompts"
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
