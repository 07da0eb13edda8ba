# Axes: R rows, D elements of one parameter, M buckets.

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from entrometer.calculus.vectors import Vector
from entrometer.errors import InvalidValue, ShapeMismatch

# Draws come in chunks of this many elements, on which the values of a sketch depend.
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Sketch:
    r"""CountSketch $\sigma(a)_b = \sum_{j: h(j) = b} \varepsilon_j a_j$ of gradients.

    Every element $j$ of the parameters has a random bucket $h(j)$ of $m$ and a random
    sign $\varepsilon_j$. Inner products survive on average,
    $$\sigma(a) \cdot \sigma(b) = a \cdot b + \sum_{j < k} X_{jk}, \qquad
      X_{jk} = \varepsilon_j \varepsilon_k\, 1[h(j) = h(k)]\, (a_j b_k + a_k b_j),$$
    because each $X_{jk}$ has mean 0. They are uncorrelated, with
    $\mathrm{Var}\, X_{jk} = (a_j b_k + a_k b_j)^2 / m$, whose sum is
    $$\mathrm{Var}
      = \frac{1}{m} \Big( |a|^2 |b|^2 + (a \cdot b)^2 - 2 \sum_j a_j^2 b_j^2 \Big)
      \le \frac{2}{m} |a|^2 |b|^2.$$
    This is the variance of a dense projection with random signs, at a cost of $O(d)$
    per row and not $O(dm)$.
    """

    m: int
    """Number of buckets."""
    seed: int

    def __post_init__(self) -> None:
        if self.m < 1:
            raise InvalidValue(f"expected at least one bucket; got m={self.m}.")

    def apply(self, rows: Vector) -> Float64[Tensor, "R {self.m}"]:
        """Return the sketch of each row, over all parameters; tensors are (R, ...)."""
        if not rows or any(tensor.ndim < 1 for tensor in rows.values()):
            raise ShapeMismatch("expected rows (R, ...) of at least one parameter.")
        if len({len(tensor) for tensor in rows.values()}) > 1:
            lengths = {name: len(tensor) for name, tensor in rows.items()}
            raise ShapeMismatch(
                f"expected as many rows of every parameter; got {lengths}."
            )
        first = next(iter(rows.values()))
        # Transposed, so that one element of all rows adds to neighbours in memory.
        sketch_MR = first.new_zeros(self.m, len(first), dtype=torch.float64)
        for name, tensor in rows.items():
            # The new axis lets a parameter of a single number pass as a row of one.
            rows_RD = tensor[..., None].flatten(1)
            self._add(sketch_MR, name, rows_RD.to(first.device))
        return sketch_MR.T.contiguous()

    def error_bound(self, norm_a: float, norm_b: float) -> float:
        r"""Return the bound $\sqrt{2/m}\, |a| |b|$ on a product's standard error."""
        return math.sqrt(2 / self.m) * norm_a * norm_b

    def _add(
        self,
        sketch_MR: Float64[Tensor, "M R"],
        name: str,
        rows_RD: Float[Tensor, "R D"],
    ) -> None:
        chunks = torch.split(rows_RD, _CHUNK, dim=1)
        draws = self._draws(name, rows_RD.shape[1])
        for chunk_RD, draw_D in zip(chunks, draws, strict=True):
            draw_D = draw_D.to(chunk_RD.device)
            sign_D = 1 - 2 * (draw_D & 1)
            signed_DR = chunk_RD.T.to(torch.float64, copy=True).mul_(sign_D[:, None])
            sketch_MR.index_add_(0, draw_D >> 1, signed_DR)

    def _draws(self, name: str, size: int) -> Iterator[Int64[Tensor, "D"]]:
        # The lowest bit is the sign, the others the bucket. 2m is even, so the two
        # signs of a bucket are equally likely even where 2m does not divide the
        # generator's range: the sketch is unbiased for every m.
        # Drawn on the CPU from the seed and the parameter's name: the same in every
        # process, on every device, and whatever other parameters there are.
        digest = hashlib.sha256(f"{self.seed}\0{name}".encode()).digest()
        generator = torch.Generator("cpu")
        generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        for start in range(0, size, _CHUNK):
            shape = (min(_CHUNK, size - start),)
            yield torch.randint(2 * self.m, shape, generator=generator)


def fold(sketch: Float64[Tensor, "R M"], m: int) -> Float64[Tensor, "R {m}"]:
    r"""Return the sketch with $m$ buckets from one with a multiple of $m$ buckets.

    Buckets that are equal modulo $m$ are added, $h'(j) = h(j) \bmod m$: again a uniform
    bucket with the same sign.
    """
    if m < 1 or sketch.shape[1] % m:
        raise InvalidValue(
            f"expected m to divide the {sketch.shape[1]} buckets of the sketch; got "
            f"m={m}."
        )
    return sketch.reshape(len(sketch), -1, m).sum(1)
