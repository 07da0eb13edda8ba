"""Influence of every token of an update on entropy and reward, and its sums."""

# Axes: K tokens of the update batch, Q folds of the evaluation batch, A groups.

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate
from entrometer.estimators.responses import Column


@dataclass(frozen=True, eq=False)
class FoldContributions:
    r"""Influence of each token through each fold of the evaluation batch.

    The gradient of the objective is a sum over folds, $\nabla f = \sum_q g_q$ (token
    weights of the whole batch held constant), and so is the influence:
    $I_q(i,k) = \alpha_{ik}\nabla_{u_q}S_{ik} + \gamma_{ik}\nabla_{u_q}H_{ik}$ with
    $u_q = \kappa P g_q$.
    """

    parts: Float[np.ndarray, "K Q"]
    """$I_q$ of each token; the sum over folds is the influence."""
    size: Float[np.ndarray, " Q"]
    """Fraction of each fold in the divisor of the objective: of the tokens for h, of
    the responses for a mean. Adds up to 1."""
    residual: Float[np.ndarray, " Q"] | None = None
    r"""$(\sum_q H - R\sum_q T)/\sum T$, for h: distance of each fold's entropy from
    the batch's, over the tokens of the whole batch. None for a mean."""
    length: Column | None = None
    r"""$I_T/\bar T$, for h: influence of each token on the mean length, relative to
    it. The noise of $R$ enters with this factor. None for a mean."""


def influence_parts(
    alpha: Column,
    gamma: Column,
    dS: Float[np.ndarray, "K Q"],
    dH: Float[np.ndarray, "K Q"],
) -> Float[np.ndarray, "K Q"]:
    r"""Return $I_q = \alpha\nabla_{u_q}S + \gamma\nabla_{u_q}H$ of each token and fold.

    `dS`, `dH` are the forward-mode derivatives of the update batch's tables along each
    $u_q = \kappa P g_q$.
    """
    return np.asarray(alpha[:, None] * dS + gamma[:, None] * dH)


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of each token or group, with its standard error over folds."""

    value: Float[np.ndarray, " A"]
    """Influence, per unit learning rate."""
    standard_error: Float[np.ndarray, " A"]
    """Standard error over folds of the evaluation batch."""
    fold_influence: Float[np.ndarray, "A Q"]
    r"""$\psi_q$ of each fold, from which the standard error is computed."""
    folds: int
    prompts: int
    responses: int
    """Number of folds Q, of prompts and of responses of the evaluation batch."""

    @property
    def cells(self) -> Float[np.ndarray, "A Q"]:
        r"""$I + Q\psi_q$: influence through each fold alone, whose mean is $I$."""
        return np.asarray(self.value[:, None] + self.folds * self.fold_influence)

    def __getitem__(self, index: int) -> Estimate:
        """Return the influence of one token or group, t on Q - 1 degrees of freedom."""
        return Estimate.symmetric(
            float(self.value[index]),
            float(self.standard_error[index]),
            degrees_of_freedom=float(self.folds - 1),
            effective_samples=float(self.responses),
            prompts=self.prompts,
        )


def token_influence(
    contributions: FoldContributions, *, prompts: int, responses: int
) -> Influence:
    r"""Return the influence of every token, $I = \sum_q I_q$, with its standard error.

    Fold q contributes $\psi_q = I_q - s_q I - \frac{I_T}{\bar T}\rho_q$ ($s_q$ its
    fraction of the divisor, $\rho_q$ its residual entropy) and
    $\mathrm{Var}\,I \approx \sum_q\psi_q^2/(1 - \sum_q s_q^2)$, for folds of equal size
    $\frac{Q}{Q-1}\sum_q\psi_q^2$. The interval has its coverage from two folds on, but
    below about 8 folds Student's t makes it wide.
    """
    I_K = contributions.parts.sum(axis=1)
    share = contributions.size
    psi_KQ = contributions.parts - I_K[:, None] * share
    if contributions.length is not None and contributions.residual is not None:
        psi_KQ = psi_KQ - contributions.length[:, None] * contributions.residual
    elif contributions.length is not None or contributions.residual is not None:
        raise InvalidValue(
            "expected both `length` and `residual` (for h) or neither (for a mean), "
            "got one of them; pass the other too"
        )
    Q = share.size
    if Q < 2:
        raise InvalidValue(
            f"expected at least 2 folds for a standard error, got {Q}; split the "
            "evaluation batch by prompt"
        )
    error_K = np.sqrt((psi_KQ**2).sum(axis=1) / (1 - (share @ share)))
    return Influence(I_K, error_K, psi_KQ, Q, prompts, responses)


def summed(
    contributions: FoldContributions, group: Int[np.ndarray, " K"], groups: int
) -> FoldContributions:
    """Return contributions summed by group: sequence, prompt, sign, position, class.

    Compute standard errors afterwards, with `token_influence`: tokens share the noise
    of the evaluation batch, so the error of a sum is not the root of summed squares.
    """
    length = contributions.length
    return replace(
        contributions,
        parts=_by_group(contributions.parts, group, groups),
        length=None if length is None else _by_group(length, group, groups),
    )


def _by_group(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    out = np.zeros((groups, *values.shape[1:]))
    np.add.at(out, group, values)
    return out
