"""Variance of a linear term whose two factors come from independent batches."""

# Axes: E prompts of the evaluation batch, U prompts of the update batch.

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate


@dataclass(frozen=True)
class TwoBatchVariance:
    r"""Variance of $\bar X\cdot\bar Y$ by where it comes from; the parts add up."""

    given_update: float
    r"""$\bar Y^\top\hat\Sigma_X\bar Y/B_E$: for the update at hand, E alone varies."""

    evaluation: float
    r"""$V_X = \mu_Y^\top\Sigma_X\mu_Y/B_E$, estimated without bias."""

    update: float
    r"""$V_Y = \mu_X^\top\Sigma_Y\mu_X/B_U$, estimated without bias."""

    both: float
    r"""$V_{XY} = \mathrm{Tr}[\Sigma_X\Sigma_Y]/(B_E B_U)$."""

    @property
    def total(self) -> float:
        """Variance over both batches."""
        return self.evaluation + self.update + self.both


def two_batch_variance(products: Float[np.ndarray, "E U"]) -> TwoBatchVariance:
    r"""Parts of $\mathrm{Var}(\bar X\cdot\bar Y)$ from all products $X_n\cdot Y_m$.

    $X_n$ are the per-prompt terms of $\nabla h$, $Y_m$ those of the update; only their
    products enter, never a vector of the size of the parameters.

    With sample means in place of $\mu$, $\sum_n(\bar Y\cdot(X_n-\bar X))^2/
    (B_E(B_E-1))$ has the mean $V_X + V_{XY}$, for $\bar Y$ carries noise of its own;
    the same with X and Y exchanged. So $V_{XY}$ is taken off each: the sum of the two
    plug-in terms and $V_{XY}$ would count it three times.
    """
    B_E, B_U = products.shape
    if min(B_E, B_U) < 2:
        raise InvalidValue(
            f"expected at least 2 prompts in each batch, got {B_E} and {B_U}"
        )
    g = np.asarray(products, np.float64)
    along_Y = g.mean(axis=1)
    along_X = g.mean(axis=0)
    plug_in_X = float(along_Y.var(ddof=1)) / B_E
    plug_in_Y = float(along_X.var(ddof=1)) / B_U
    centred = g - along_Y[:, None] - along_X[None, :] + g.mean()
    trace = float((centred**2).sum()) / ((B_E - 1) * (B_U - 1))
    both = trace / (B_E * B_U)
    return TwoBatchVariance(
        given_update=plug_in_X,
        evaluation=plug_in_X - both,
        update=plug_in_Y - both,
        both=both,
    )


def two_batch_term(
    products: Float[np.ndarray, "E U"], *, given_update: bool = False
) -> Estimate:
    r"""$\bar X\cdot\bar Y$ with its interval, over both batches or for a given update.

    Where noise swamps both means, the unbiased total can fall below `both`, or below 0;
    the interval then uses `both`, its certain part.
    """
    V = two_batch_variance(products)
    B_E, B_U = products.shape
    variance = V.given_update if given_update else max(V.total, V.both)
    freedom = B_E - 1 if given_update else min(B_E, B_U) - 1
    return Estimate.symmetric(
        float(products.mean()),
        float(np.sqrt(variance)),
        degrees_of_freedom=float(freedom),
        effective_samples=float(B_E),
        prompts=B_E if given_update else min(B_E, B_U),
    )
