r"""Scores of a token from what a trainer has at hand, with $p = e^S$.

Each is a published or an obvious guess at which tokens move entropy; none looks at a
gradient. They are judged by how they rank the influence that is measured.
"""

# Axes: K tokens of the update batch.

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from entrometer.estimators.tables import Column


class TokenColumns(NamedTuple):
    """What a score may see of every token."""

    A: Column
    """Advantage."""

    S: Column
    """Log-probability."""

    H: Column
    """Entropy before the token."""

    position: Column
    """Place in the response."""

    length: Column
    """Tokens of the response."""

    pass_rate: Column
    """Mean reward of the prompt's responses."""

    surplus: Column
    r"""$\sum_v p_v^2(\log p_v + H)$."""


class Sees(Enum):
    """What a score is made of, which says how responses are scored by it."""

    PULL = "the advantage: a response has the sum over its tokens"
    STATE = "the policy alone: a response has the sum, each token weighed by its pull"
    RESPONSE = "what all tokens of a response share"
    PLACE = "the token's place: a response has none"


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
    """Place in the response."""
    return x.position


def pass_rate(x: TokenColumns) -> Column:
    """Mean reward of the responses to the prompt."""
    return x.pass_rate


def length(x: TokenColumns) -> Column:
    """Tokens of the response."""
    return x.length


def tabular_softmax(x: TokenColumns) -> Column:
    r"""What the token would do if every prefix had logits of its own.

    One step $\Delta z_v = A(1[v = y] - p_v)$ on the logits before it changes the
    entropy there by $-A[p(\log p + H) - \sum_v p_v^2(\log p_v + H)]$: a kernel that is
    diagonal in prefixes.
    """
    score: np.ndarray = -x.A * (np.exp(x.S) * (x.S + x.H) - x.surplus)
    return score


SCORES: dict[str, tuple[Callable[[TokenColumns], Column], Sees]] = {
    "cov": (covariance, Sees.PULL),
    "p(H + log p)": (discriminant, Sees.STATE),
    "STEER": (steer, Sees.PULL),
    "surprisal": (surprisal, Sees.STATE),
    "A log p": (weighted_log_probability, Sees.PULL),
    "entropy": (entropy, Sees.STATE),
    "|A|": (size_of_advantage, Sees.RESPONSE),
    "position": (position, Sees.PLACE),
    "pass rate": (pass_rate, Sees.RESPONSE),
    "length": (length, Sees.RESPONSE),
    "tabular softmax": (tabular_softmax, Sees.PULL),
}
"""Every score by its name."""
