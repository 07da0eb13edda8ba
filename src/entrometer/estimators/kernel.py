"""Statistics of the Fisher kernel between sequences."""

# Axes: N responses, P prompts.

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, jackknife
from entrometer.estimators.noise_scale import noise_ratio

BlockName = Literal["self", "prompt", "other"]
"""Pairs of a response with itself, of two responses to one prompt, of all others."""
BLOCKS: tuple[BlockName, ...] = get_args(BlockName)


class PairSum(NamedTuple):
    """A sum over pairs, and the same sum without each prompt."""

    whole: float
    without: Float[np.ndarray, " P"]
    """Sum over the pairs in which the prompt has no response."""


def block_mask(
    prompt: Int[np.ndarray, " N"], block: BlockName
) -> Bool[np.ndarray, "N N"]:
    """Return which ordered pairs are in a block; each pair is in one of `BLOCKS`."""
    same: np.ndarray = prompt[:, None] == prompt[None, :]
    itself = np.eye(prompt.size, dtype=bool)
    return {"self": itself, "prompt": same & ~itself, "other": ~same}[block]


def pair_sum(x: Float[np.ndarray, "N N"], prompt: Int[np.ndarray, " N"]) -> PairSum:
    """Return the sum over all ordered pairs, and without each prompt, ids ascending."""
    _, place = np.unique(prompt, return_inverse=True)
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(place.max() + 1))
    sorted_NN = x[np.ix_(order, order)]
    by_prompt = np.add.reduceat(np.add.reduceat(sorted_NN, first, 0), first, 1)
    whole = float(by_prompt.sum())
    touching = by_prompt.sum(0) + by_prompt.sum(1) - by_prompt.diagonal()
    return PairSum(whole, whole - touching)


class BlockMean(NamedTuple):
    """Summary of the kernel's elements in a block."""

    mean: Estimate
    size: float
    """Root mean square of the elements."""
    pairs: int
    """Number of unordered pairs; of responses in the block `self`."""


def block_mean(
    X: Float[np.ndarray, "N N"], prompt: Int[np.ndarray, " N"], block: BlockName
) -> BlockMean:
    r"""Return the mean of a block's elements, its interval clustered by prompt.

    $$\bar X = \sum_{(i,j)\in b} X_{ij} \Big/ |b|.$$
    For the block `other` it is a two-way U-statistic: pairs that share a prompt are
    not independent, so the jackknife leaves out a prompt with all of its pairs.
    """
    mask = block_mask(prompt, block)
    total = pair_sum(np.where(mask, X, 0.0), prompt)
    count = pair_sum(mask.astype(np.float64), prompt)
    if not count.whole:
        raise InvalidValue(
            f"expected pairs in the block {block!r}, got none; sample more prompts, or "
            "more responses per prompt"
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        without = total.without / count.without
    return BlockMean(
        mean=jackknife(total.whole / count.whole, without),
        size=float(np.sqrt(float((X[mask] ** 2).mean()))),
        pairs=_unordered(count, block),
    )


def _unordered(count: PairSum, block: BlockName) -> int:
    return int(count.whole) if block == "self" else int(count.whole) // 2


def cosines(K: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    r"""Return $K_{ij}/\sqrt{K_{ii}K_{jj}}$; NaN for a response with zero gradient."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(K / _norms(K))


def _norms(K: np.ndarray) -> np.ndarray:
    size = np.sqrt(K.diagonal())
    return np.asarray(size[:, None] * size[None, :])


class PowerOfLength(NamedTuple):
    """Power of the length with which a kernel's elements grow, and the pairs fitted."""

    power: Estimate
    pairs: int


def growth_with_length(
    K: Float[np.ndarray, "N N"],
    length: Int[np.ndarray, " N"],
    prompt: Int[np.ndarray, " N"],
    block: BlockName,
) -> PowerOfLength:
    r"""Return the slope $p$ of $\log|K_{ij}| = a + p\log\sqrt{T_iT_j}$, least squares.

    1 if the gradients of a response's tokens are independent, 2 if all are parallel;
    NaN if all lengths are equal. Fitted to the pairs of `block` with $K_{ij}\ne0$; the
    interval is a jackknife over prompts.
    """
    T = np.log(length)
    x = (T[:, None] + T[None, :]) / 2
    fitted = block_mask(prompt, block) & (K != 0)
    # Centred first, so that the sums of squares keep their digits.
    y = np.log(np.abs(np.where(fitted, K, 1.0)))
    x = x - x[fitted].mean() if fitted.any() else x
    y = y - y[fitted].mean() if fitted.any() else y
    n, X, Y, XX, XY = (
        pair_sum(np.where(fitted, column, 0.0), prompt)
        for column in (np.ones_like(x), x, y, x * x, x * y)
    )

    def slope(part: int) -> np.ndarray:
        s, t, u, v, w = (np.asarray(a[part]) for a in (n, X, Y, XX, XY))
        spread = s * v - t * t
        with np.errstate(invalid="ignore", divide="ignore"):
            # A spread this small is the rounding error of equal lengths.
            return np.where(spread > 1e-12 * s * s, (s * w - t * u) / spread, np.nan)

    power = jackknife(float(slope(0)), slope(1))
    return PowerOfLength(power, _unordered(n, block))


def sketch_error(
    K: Float[np.ndarray, "N N"], sketched: Float[np.ndarray, "N N"]
) -> float:
    r"""Return the RMS of $(\tilde K_{ij} - K_{ij})/\sqrt{K_{ii}K_{jj}}$, $i\le j$."""
    relative = ((sketched - K) / _norms(K))[np.triu_indices(len(K))]
    return float(np.sqrt((relative**2).mean()))


def expected_sketch_error(K: Float[np.ndarray, "N N"], m: int) -> float:
    r"""Return $\sqrt{\overline{(1+\cos^2)}/m}$ over the pairs of `sketch_error`.

    The expected error of a CountSketch with m buckets, less a term that vanishes unless
    a few elements dominate a gradient.
    """
    cosine = cosines(K)[np.triu_indices(len(K))]
    return math.sqrt(float((1 + cosine**2).mean()) / m)


def eigenvalues(K: Float[np.ndarray, "N N"]) -> Float[np.ndarray, " N"]:
    """Return the eigenvalues of a symmetric matrix, the largest first."""
    return np.asarray(linalg.eigvalsh(K)[::-1])


def effective_rank(K: Float[np.ndarray, "N N"]) -> float:
    r"""Return $(\sum\lambda)^2/\sum\lambda^2 = (\mathrm{tr}\,K)^2/\sum_{ij}K_{ij}^2$.

    It is 1 for a single non-zero eigenvalue and N for N equal ones.
    """
    return float(np.trace(K) ** 2 / (K**2).sum())


def off_diagonal_share(K: Float[np.ndarray, "N N"]) -> float:
    r"""Return $\sum_{i\ne j}K_{ij}^2/\sum_{ij}K_{ij}^2$: 0 for a diagonal kernel."""
    return float(1 - (K.diagonal() ** 2).sum() / (K**2).sum())


_POINTS = 1 << 15
"""Points of the grid on which the density is integrated."""


@dataclass(frozen=True)
class MarchenkoPastur:
    r"""Distribution of the eigenvalues of $\frac{s}{\nu}XX^\top$, X N×ν normals.

    This is the spectrum of a kernel of unrelated gradients. With $c = N/\nu$ its
    density is
    $$\rho(\lambda) = \frac{\sqrt{(\lambda_+ - \lambda)(\lambda - \lambda_-)}}
      {2\pi c s\lambda}, \qquad \lambda_\pm = s(1\pm\sqrt c)^2,$$
    and for $c > 1$ a mass of $1 - 1/c$ lies at 0. Mean $s$, variance $cs^2$.
    """

    scale: float
    """$s$, the mean eigenvalue."""
    ratio: float
    r"""$c$: number of sequences over the apparent dimension of their gradients."""

    @classmethod
    def fit(cls, K: Float[np.ndarray, "N N"]) -> "MarchenkoPastur":
        r"""Return the distribution with the first two moments of a kernel's spectrum.

        $s = \mathrm{tr}\,K/N$ and $s^2(1+c) = \sum K_{ij}^2/N$. The model is crude:
        the rows of a kernel differ in length and share directions.
        """
        N = len(K)
        s = float(np.trace(K)) / N
        if not s > 0:
            raise InvalidValue(
                f"expected a kernel with a positive trace, got {s * N}; use responses "
                "with non-zero gradients"
            )
        return cls(scale=s, ratio=float((K**2).sum()) / N / s**2 - 1)

    @property
    def edges(self) -> tuple[float, float]:
        r"""$\lambda_-$ and $\lambda_+$, the ends of the support except for 0."""
        root = math.sqrt(max(self.ratio, 0.0))
        return self.scale * (1 - root) ** 2, self.scale * (1 + root) ** 2

    def quantiles(self, N: int) -> Float[np.ndarray, " N"]:
        r"""Return the quantiles at $(r - \frac12)/N$ from the top, $r = 1,\ldots,N$."""
        level = 1 - (np.arange(N) + 0.5) / N
        c = self.ratio
        if c <= 0:
            return np.full(N, self.scale)
        low, high = self.edges
        # At the ends of the support the density has infinite slope in λ, but a finite
        # one in the angle θ on the circle over the support.
        theta = np.linspace(np.pi, 0.0, _POINTS)
        half = (high - low) / 2
        value = low + half * (1 + np.cos(theta))
        middle = (theta[1:] + theta[:-1]) / 2
        at = low + half * (1 + np.cos(middle))
        mass = (half * np.sin(middle)) ** 2 / at
        cumulative = np.concatenate([[0.0], np.cumsum(mass)])
        zero = max(0.0, 1 - 1 / c)
        cumulative = zero + (1 - zero) * cumulative / cumulative[-1]
        return np.where(level < zero, 0.0, np.interp(level, cumulative, value))


def prompt_products(
    K: Float[np.ndarray, "N N"],
    alpha: Float[np.ndarray, " N"],
    prompt: Int[np.ndarray, " N"],
) -> Float[np.ndarray, "P P"]:
    r"""Return $g_p\cdot g_q$ of $g_p = \sum_{i\in p}\alpha_i\phi_i$, from the kernel.

    $\alpha_i$ is the weight of response i in the loss, for instance its advantage.
    """
    _, place = np.unique(prompt, return_inverse=True)
    alpha_NP = alpha[:, None] * np.eye(place.max() + 1)[place]
    return np.asarray(alpha_NP.T @ K @ alpha_NP)


def gradient_noise(products: Float[np.ndarray, "P P"]) -> Estimate:
    r"""Return $\mathrm{tr}\,\Sigma/|G|^2$ in prompts, from the products of one batch.

    $|G|^2 = \overline{g_p\cdot g_q}$ over pairs of prompts and
    $\mathrm{tr}\,\Sigma = \overline{|g_p|^2} - |G|^2$: both unbiased, and equal to the
    moments of `noise_scale` with parts of one prompt. With Adam's metric both are in
    its norm. The interval is that of `noise_ratio`, on a jackknife over prompts.
    """
    P = len(products)
    if P < 3:
        raise InvalidValue(f"expected at least 3 prompts, got {P}; add prompts")
    norms = products.diagonal()
    pairs = products.sum(axis=1) - norms
    # The whole batch first, then without each prompt.
    squares = np.concatenate([[norms.sum()], norms.sum() - norms])
    crossed = np.concatenate([[pairs.sum()], pairs.sum() - 2 * pairs])
    count = np.concatenate([[P], np.full(P, P - 1)])
    G2 = crossed / (count * (count - 1))
    moments = np.stack([squares / count - G2, G2], axis=1)
    apart = moments[1:] - moments[0]
    covariance = (P - 1) / P * apart.T @ apart
    a, g = moments[0].tolist()
    return noise_ratio((a, g), covariance, degrees_of_freedom=P - 1, prompts=P)
