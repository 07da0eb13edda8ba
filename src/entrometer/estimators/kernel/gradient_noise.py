"""Gradient noise scale from products of gradients, within one batch."""

# Axes: N responses, P prompts.

import numpy as np
from jaxtyping import Float, Int

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate
from entrometer.estimators.noise_scale import noise_ratio


def prompt_products(
    K: Float[np.ndarray, "N N"],
    alpha: Float[np.ndarray, " N"],
    prompt: Int[np.ndarray, " N"],
) -> Float[np.ndarray, "P P"]:
    r"""Products $g_p\cdot g_q$ of $g_p = \sum_{i\in p}\alpha_i\phi_i$, from the kernel.

    $\alpha_i$ is what the loss asks of response i, for instance its advantage.
    """
    _, place = np.unique(prompt, return_inverse=True)
    pull_NP = alpha[:, None] * np.eye(place.max() + 1)[place]
    products: np.ndarray = pull_NP.T @ K @ pull_NP
    return products


def gradient_noise(products: Float[np.ndarray, "P P"]) -> Estimate:
    r"""$\mathrm{tr}\,\Sigma/|G|^2$ in prompts, from the products of one batch.

    $|G|^2 = \overline{g_p\cdot g_q}$ over pairs of prompts and
    $\mathrm{tr}\,\Sigma = \overline{|g_p|^2} - |G|^2$: both without bias, and the same
    as the moments of `noise_scale` with parts of one prompt. Under Adam's metric both
    are in its norm. The interval is Fieller's, on a jackknife over prompts; where
    either moment is not positive the value is NaN and the interval everything.
    """
    P = len(products)
    if P < 3:
        raise InvalidValue(f"expected at least 3 prompts, got {P}")
    own = products.diagonal()
    pairs = products.sum(axis=1) - own
    # The whole batch first, then without each prompt.
    squares = np.concatenate([[own.sum()], own.sum() - own])
    crossed = np.concatenate([[pairs.sum()], pairs.sum() - 2 * pairs])
    count = np.concatenate([[P], np.full(P, P - 1)])
    G2 = crossed / (count * (count - 1))
    moments = np.stack([squares / count - G2, G2], axis=1)
    apart = moments[1:] - moments[0]
    covariance = (P - 1) / P * apart.T @ apart
    a, g = moments[0].tolist()
    return noise_ratio((a, g), covariance, degrees_of_freedom=P - 1, prompts=P)
