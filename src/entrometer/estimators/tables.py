"""The columns that passes over a model write and estimators read."""

# Axes: K tokens of all responses (layout: Responses).

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Column = Float[np.ndarray, " K"]


class Tables(NamedTuple):
    """Log-prob and entropy of each token at one parameter point, in nats."""

    S: Column
    r"""$S_k = \log\pi(t_k|t_{<k},p)$."""

    H: Column
    r"""$H_k$, the whole-vocabulary entropy at the prefix of token k."""


class Tangents(NamedTuple):
    r"""Directional derivatives of the tables along $v$."""

    dS: Column
    r"""$\nabla_v S_k$."""

    dH: Column
    r"""$\nabla_v H_k$."""


class Curvatures(NamedTuple):
    r"""Second directional derivatives of the tables along $v$."""

    ddS: Column
    r"""$\nabla_v^2 S_k$."""

    ddH: Column
    r"""$\nabla_v^2 H_k$."""


class Baseline(NamedTuple):
    """Predictions, from the prefix alone, of what is still to come after each token.

    A prediction that peeks at token k or beyond biases the doubly robust estimator.
    """

    b: Column
    r"""Of the entropy to go, $G_k = \sum_{j>k} H_j$."""

    c: Column
    r"""Of the tokens to go, $M_k = T - k$."""
