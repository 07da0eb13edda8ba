r"""Differences of the coefficients $\alpha$ and $\gamma$ of two losses."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from entrometer.interventions import TokenTables
from entrometer.tokens import LossCoefficients

FLOAT64 = 1e-10
"""Largest relative difference that counts as equal where both compute in float64."""

FLOAT32 = 2e-6
"""The same where the other implementation rounds its log-ratios to float32.

A log-ratio below 8 is rounded by at most 8·2⁻²⁴ and its exponential by 2⁻²⁴ more; the
gradient is a product of two such numbers.
"""


@dataclass(frozen=True)
class Apart:
    r"""How far two implementations are apart on some batches."""

    alpha: float  #: Largest relative difference of $\alpha$.
    gamma: float  #: Largest relative difference of $\gamma$.

    @property
    def largest(self) -> float:
        """The larger of the two."""
        return max(self.alpha, self.gamma)


def apart(ours: LossCoefficients, theirs: LossCoefficients) -> Apart:
    """Return the relative differences of their coefficients from ours."""
    return Apart(
        relative_difference(ours.alpha, theirs.alpha),
        relative_difference(ours.gamma, theirs.gamma),
    )


def worst(found: list[Apart]) -> Apart:
    """Return the largest difference of each coefficient."""
    return Apart(max(x.alpha for x in found), max(x.gamma for x in found))


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference over the largest coefficient of ours.

    If ours are all 0 it is over the largest of theirs, so it is 1 or 0. A NaN of theirs
    is an infinite difference.
    """
    size = float(ours.abs().max()) or float(theirs.abs().max())
    largest = float((theirs - ours).abs().max())
    if largest != largest:
        return float("inf")
    return largest / size if size else 0.0


@dataclass(frozen=True)
class TokenDifference:
    """A token on which two implementations differ."""

    response: int
    token: int
    S: float
    S_old: float
    A: float
    alpha: float  #: Ours.
    their_alpha: float
    gamma: float  #: Ours.
    their_gamma: float

    @property
    def ratio(self) -> float:
        """Ratio to the policy that sampled."""
        return math.exp(self.S - self.S_old)


def most_different(
    tables: TokenTables,
    ours: LossCoefficients,
    theirs: LossCoefficients,
    count: int = 5,
) -> list[TokenDifference]:
    """Return the tokens whose coefficients differ most, the largest first."""
    scale = [float(x.abs().max()) or 1.0 for x in ours]
    distance = sum(
        ((their - own).abs() / size).nan_to_num(nan=torch.inf)
        for own, their, size in zip(ours, theirs, scale, strict=True)
    )
    assert isinstance(distance, Tensor)
    order = distance.flatten().argsort(descending=True, stable=True)[:count]
    found = []
    for place in order.tolist():
        i, k = divmod(place, tables.S.shape[1])
        if not distance[i, k]:
            break
        values = [tables.S, tables.S_old, tables.A]
        values += [ours.alpha, theirs.alpha, ours.gamma, theirs.gamma]
        found.append(TokenDifference(i, k, *(float(x[i, k]) + 0.0 for x in values)))
    return found
