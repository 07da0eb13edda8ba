"""What a baseline may know of a token: its prefix, and nothing else."""

# Axes: K tokens of all responses (layout: Responses), F features.

import numpy as np
from jaxtyping import Float

from entrometer.estimators.responses import Responses
from entrometer.estimators.tables import Tables


def constant_features(responses: Responses) -> Float[np.ndarray, "K 1"]:
    """The single feature 1: the baseline is the mean over the other folds."""
    return np.ones((responses.tokens, 1))


def prefix_features(responses: Responses, here: Tables) -> Float[np.ndarray, "K 6"]:
    r"""Cheap features of the prefix $t_{<k}$.

    1; position k; $\log k$; the entropy here $H_k$; the mean entropy so far; the
    log-prob of the token before. Not $S_k$ and nothing that knows T: both see what the
    baseline must not (the original notes binned positions by $k/T$, which does).
    """
    k = responses.position.astype(np.float64)
    S_so_far = responses.before(here.S)
    S_before_that = np.zeros_like(S_so_far)
    S_before_that[1:] = S_so_far[:-1]
    S_previous = np.where(k > 1, S_so_far - S_before_that, 0.0)
    H_so_far = responses.before(here.H) + here.H
    return np.stack(
        [np.ones_like(k), k, np.log(k), here.H, H_so_far / k, S_previous], axis=1
    )
