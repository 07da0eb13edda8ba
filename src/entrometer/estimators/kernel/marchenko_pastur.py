"""The spectrum of a Wishart matrix: what a kernel of unrelated gradients would have."""

# Axes: N responses.

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue

_POINTS = 1 << 15
"""Of the grid on which the law is summed up."""


@dataclass(frozen=True)
class MarchenkoPastur:
    r"""Law of the eigenvalues of $\frac{s}{\nu}XX^\top$, X of N rows of $\nu$ normals.

    With $c = N/\nu$ its density is
    $$\rho(\lambda) = \frac{\sqrt{(\lambda_+ - \lambda)(\lambda - \lambda_-)}}
      {2\pi c s\lambda}, \qquad \lambda_\pm = s(1\pm\sqrt c)^2,$$
    and for $c > 1$ there is a mass of $1 - 1/c$ at 0. Mean $s$, variance $cs^2$.
    """

    scale: float
    """$s$."""

    ratio: float
    r"""$c$: sequences to each dimension that their gradients seem to have."""

    @classmethod
    def fit(cls, K: Float[np.ndarray, "N N"]) -> "MarchenkoPastur":
        r"""The law with the mean and the second moment of a kernel's eigenvalues.

        $s = \mathrm{tr}\,K/N$ and $s^2(1+c) = \sum K_{ij}^2/N$: a crude model, for a
        kernel's rows differ in length and lean to common directions.
        """
        N = len(K)
        s = float(np.trace(K)) / N
        if not s > 0:
            raise InvalidValue(f"expected a kernel with a positive trace, got {s * N}")
        return cls(scale=s, ratio=float((K**2).sum()) / N / s**2 - 1)

    @property
    def edges(self) -> tuple[float, float]:
        r"""$\lambda_-$ and $\lambda_+$: where the law ends, but for a mass at 0."""
        root = math.sqrt(max(self.ratio, 0.0))
        return self.scale * (1 - root) ** 2, self.scale * (1 + root) ** 2

    def quantiles(self, N: int) -> Float[np.ndarray, " N"]:
        r"""Quantiles at $(r - \frac12)/N$ from the top, $r = 1,\ldots,N$."""
        level = 1 - (np.arange(N) + 0.5) / N
        c = self.ratio
        if c <= 0:
            return np.full(N, self.scale)
        low, high = self.edges
        # On the circle over the support the density has no infinite slope.
        theta = np.linspace(np.pi, 0.0, _POINTS)
        half = (high - low) / 2
        value = low + half * (1 + np.cos(theta))
        middle = (theta[1:] + theta[:-1]) / 2
        at = low + half * (1 + np.cos(middle))
        mass = (half * np.sin(middle)) ** 2 / at
        cumulative = np.concatenate([[0.0], np.cumsum(mass)])
        zero = max(0.0, 1 - 1 / c)
        cumulative = zero + (1 - zero) * cumulative / cumulative[-1]
        found = np.interp(level, cumulative, value)
        return np.where(level < zero, 0.0, found)
