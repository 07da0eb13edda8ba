r"""Scores of a token from quantities that a trainer already has, with $p = e^S$.

Each score is a published or an obvious guess at which tokens change the entropy; none
uses a gradient. `rankings` compares them with the measured influence.
"""

# Axes: K tokens of the update batch.

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from entrometer.estimators.responses import Column


class TokenColumns(NamedTuple):
    """Quantities of every token that a score may use."""

    A: Column
    """Advantage."""

    S: Column
    """Log-probability."""

    H: Column
    """Entropy before the token."""

    position: Column
    """Position in the response."""

    length: Column
    """Number of tokens of the response."""

    pass_rate: Column
    """Mean reward of the responses to the prompt."""

    surplus: Column
    r"""$\sum_v p_v^2(\log p_v + H)$."""


class Sees(Enum):
    """Inputs of a score, which decide the score of a whole response."""

    ADVANTAGE = "advantage and policy: a response has the sum over its tokens"
    POLICY = "policy alone: a response has the sum weighted by the token weights α"
    RESPONSE = "a property of the response, the same for all of its tokens"
    POSITION = "position of the token: undefined for a response"


def covariance(x: TokenColumns) -> Column:
    r"""Cui et al.: $(A - \bar A)(\log p - \overline{\log p})$."""
    c: np.ndarray = (x.A - x.A.mean()) * (x.S - x.S.mean())
    return c


def discriminant(x: TokenColumns) -> Column:
    r"""$p(H + \log p)$: how much more likely than typical the token is."""
    s: np.ndarray = np.exp(x.S) * (x.H + x.S)
    return s


def steer(x: TokenColumns) -> Column:
    r"""STEER: $\frac{A}{\pi_\text{old}}p(1-p)(\log p + H)$, at ratio 1."""
    omega: np.ndarray = -x.A * np.expm1(x.S) * (x.S + x.H)
    return omega


def surprisal(x: TokenColumns) -> Column:
    r"""$-\log p$."""
    return -x.S


def weighted_log_probability(x: TokenColumns) -> Column:
    r"""$A\log p$."""
    score: np.ndarray = x.A * x.S
    return score


def entropy(x: TokenColumns) -> Column:
    """$H$ before the token."""
    return x.H


def size_of_advantage(x: TokenColumns) -> Column:
    """$|A|$."""
    size: np.ndarray = np.abs(x.A)
    return size


def position(x: TokenColumns) -> Column:
    """Position in the response."""
    return x.position


def pass_rate(x: TokenColumns) -> Column:
    """Mean reward of the responses to the prompt."""
    return x.pass_rate


def length(x: TokenColumns) -> Column:
    """Number of tokens of the response."""
    return x.length


def tabular_softmax(x: TokenColumns) -> Column:
    r"""Influence of the token if every prefix had its own logits.

    A step $\Delta z_v = A(1[v = y] - p_v)$ on the logits at the prefix changes the
    entropy there by $-A[p(\log p + H) - \sum_v p_v^2(\log p_v + H)]$: a kernel that is
    diagonal in prefixes.
    """
    score: np.ndarray = -x.A * (np.exp(x.S) * (x.S + x.H) - x.surplus)
    return score


SCORES: dict[str, tuple[Callable[[TokenColumns], Column], Sees]] = {
    "cov": (covariance, Sees.ADVANTAGE),
    "p(H + log p)": (discriminant, Sees.POLICY),
    "STEER": (steer, Sees.ADVANTAGE),
    "surprisal": (surprisal, Sees.POLICY),
    "A log p": (weighted_log_probability, Sees.ADVANTAGE),
    "entropy": (entropy, Sees.POLICY),
    "|A|": (size_of_advantage, Sees.RESPONSE),
    "position": (position, Sees.POSITION),
    "pass rate": (pass_rate, Sees.RESPONSE),
    "length": (length, Sees.RESPONSE),
    "tabular softmax": (tabular_softmax, Sees.ADVANTAGE),
}
"""Function and inputs of every score, by name."""
