"""Estimates computed again without each fold of the evaluation batch.

Several checkpoints are measured on the same prompts, in the same folds. A function of
numbers of all of them, such as a ratio of two sums, has the standard error of the
jackknife: the function is computed again on every number without fold q.
"""

# Axes: A quantities, Q folds, R = 1 + Q: all folds, then without each, N measured
# updates, M intervals.

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate

Replicates = Float[np.ndarray, "... R"]
"""The value by all folds, then the values without each fold."""


def replicates(
    value: Float[np.ndarray, " A"],
    fold_influence: Float[np.ndarray, "A Q"],
    size: Float[np.ndarray, " Q"],
) -> Float[np.ndarray, "A R"]:
    r"""Return each value, then it without each fold: $x - \sqrt{c}\,\psi_q$.

    With $c = \frac{Q}{(Q-1)(1-\sum_q s_q^2)}$ the jackknife's variance is that of
    `token_influence`, $\sum_q\psi_q^2/(1-\sum_q s_q^2)$, for folds of any size.

    Args:
        value: Numbers, each a sum over folds divided by a sum over folds.
        fold_influence: $\psi_q$ of each number.
        size: Share $s_q$ of each fold in the divisor.
    """
    Q = size.size
    if Q < 2:
        raise InvalidValue(
            f"expected at least 2 folds for a standard error, got {Q}; split the "
            "evaluation batch by prompt"
        )
    c = Q / ((Q - 1) * (1 - (size @ size)))
    without_AQ = value[:, None] - np.sqrt(c) * fold_influence
    return np.concatenate([value[:, None], without_AQ], axis=1)


def over_folds(
    x: Float[np.ndarray, " R"],
    *,
    variance: float = 0.0,
    degrees_of_freedom: float = np.inf,
) -> Estimate:
    r"""Return the estimate with the variance $\frac{Q-1}{Q}\sum_q(x_{-q}-x)^2$.

    Args:
        x: The value, and the values without each fold.
        variance: Variance of another source, which is added.
        degrees_of_freedom: Degrees of freedom of that one, if it is not 0.
    """
    value, without = float(x[0]), x[1:]
    Q = without.size
    of_folds = (Q - 1) / Q * float(((without - value) ** 2).sum())
    # The smaller number: the interval is then too wide rather than too narrow.
    few = min(Q - 1.0, degrees_of_freedom) if variance else Q - 1.0
    return Estimate.symmetric(
        value,
        float(np.sqrt(of_folds + variance)),
        degrees_of_freedom=few,
        effective_samples=float(Q),
        prompts=Q,
    )


def by_fold(x: Replicates) -> Float[np.ndarray, "... Q"]:
    r"""Return the value by each fold alone, $x + (Q-1)(x - x_{-q})$: its mean is x."""
    Q = x.shape[-1] - 1
    return np.asarray(x[..., :1] + (Q - 1) * (x[..., :1] - x[..., 1:]))


def variance_of_rest(
    change: Float[np.ndarray, " N"], steps: Float[np.ndarray, " M"]
) -> tuple[float, float]:
    r"""Return the variance due to steps without a measurement, and degrees of freedom.

    Interval j has $s_j$ steps, of which the first is measured, and $s_ju_j$ stands for
    all. If the changes by single steps vary independently with the variance $\sigma^2$,
    the error has the variance $s_j(s_j-1)\sigma^2$. $\sigma^2$ is half the mean square
    of the difference of successive $u_j$, which a trend hardly enters. 0 if every step
    is measured; NaN if a single one is and others are not.
    """
    factor = float((steps * (steps - 1)).sum())
    if not factor:
        return 0.0, np.inf
    if change.size < 2:
        return np.nan, np.nan
    sigma2 = float((np.diff(change) ** 2).mean()) / 2
    # Successive differences share a change: about two thirds of them are independent.
    return factor * sigma2, max(1.0, 2 * (change.size - 1) / 3)


def held_out_sums(x: Float[np.ndarray, "A R"]) -> Float[np.ndarray, "A Q"]:
    """Return, by each fold, sums over the lowest values as other folds have them.

    Row k - 1 is the sum over k quantities: by an even fold, over those that are lowest
    by the odd folds, and the other way round. A sum over quantities that were chosen by
    the noise that is in the sum would be too low.
    """
    cells_AQ = by_fold(x)
    Q = cells_AQ.shape[1]
    sums_AQ = np.empty_like(cells_AQ)
    for parity in (0, 1):
        mine = np.arange(Q) % 2 == parity
        order = np.argsort(cells_AQ[:, ~mine].mean(axis=1), kind="stable")
        sums_AQ[:, mine] = np.cumsum(cells_AQ[order][:, mine], axis=0)
    return sums_AQ
