"""Rows about one kernel: blocks, spectrum, growth, elements, sketches, the whole."""

# Axes: N sequences.

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators.kernel import (
    BLOCKS,
    MarchenkoPastur,
    block_mask,
    block_mean,
    cosines,
    effective_rank,
    eigenvalues,
    expected_sketch_error,
    gradient_noise,
    growth_with_length,
    off_diagonal_share,
    prompt_products,
    sketch_error,
)
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.update_batch import centred_rewards
from entrometer.runs.tables.kernel import (
    Block,
    Eigenvalue,
    Element,
    Growth,
    SketchError,
    Whole,
)

ELEMENTS = 500
"""Elements of a block that are kept, at most."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel in one metric, and what its sequences are."""

    checkpoint: str
    metric: str
    step: int
    K: Float[np.ndarray, "N N"]
    exact: bool
    """Or a sketch."""

    sketches: dict[int, np.ndarray]
    """By buckets, of the first sequences."""

    matrix_free: Float[np.ndarray, " E"]
    """Largest eigenvalues that were found without the matrix; none, if none."""

    prompt: Int[np.ndarray, " N"]
    length: Int[np.ndarray, " N"]
    reward: Float[np.ndarray, " N"]
    parameters: int
    seconds: float

    @property
    def who(self) -> dict[str, Any]:
        """What every row begins with."""
        return {"checkpoint": self.checkpoint, "metric": self.metric}


def blocks(k: Kernel) -> Iterator[Block]:
    """A row a block and quantity."""
    for quantity, X in (("kernel", k.K), ("cosine", cosines(k.K))):
        for block in BLOCKS:
            found = block_mean(X, k.prompt, block)
            yield Block(
                **k.who,
                block=block,
                quantity=quantity,
                **estimate_fields("mean", found.mean),
                size=found.size,
                pairs=found.pairs,
                responses=k.prompt.size,
                prompts=found.mean.prompts,
            )


def spectrum(k: Kernel) -> Iterator[Eigenvalue]:
    """All eigenvalues of the matrix, and those that were found without it."""
    law = MarchenkoPastur.fit(k.K).quantiles(len(k.K))
    dense = "dense" if k.exact else "sketch"
    for rank, value in enumerate(eigenvalues(k.K), 1):
        wishart = float(law[rank - 1]) if k.exact else np.nan
        yield Eigenvalue(
            **k.who, method=dense, rank=rank, value=float(value), wishart=wishart
        )
    for rank, value in enumerate(k.matrix_free, 1):
        yield Eigenvalue(
            **k.who,
            method="matrix-free",
            rank=rank,
            value=float(value),
            wishart=np.nan,
        )


def growth(k: Kernel) -> Iterator[Growth]:
    """A row a block."""
    for block in BLOCKS:
        power, pairs = growth_with_length(k.K, k.length, k.prompt, block)
        yield Growth(
            **k.who,
            block=block,
            power=power.value,
            power_se=power.standard_error,
            pairs=pairs,
        )


def elements(k: Kernel, seed: int) -> Iterator[Element]:
    """Pairs of each block, as many as are kept, at random."""
    rng = np.random.default_rng([4, seed])
    upper = np.triu(np.ones(k.K.shape, bool))
    for block in BLOCKS:
        pairs = np.argwhere(block_mask(k.prompt, block) & upper)
        if len(pairs) > ELEMENTS:
            pairs = pairs[np.sort(rng.choice(len(pairs), ELEMENTS, replace=False))]
        for i, j in pairs:
            yield Element(
                **k.who,
                block=block,
                length=float(np.sqrt(float(k.length[i]) * float(k.length[j]))),
                value=float(k.K[i, j]),
            )


def sketches(k: Kernel) -> Iterator[SketchError]:
    """A row a size; NaN is the error where there is no kernel to hold it against."""
    for m, sketched in sorted(k.sketches.items()):
        K = k.K[: len(sketched), : len(sketched)]
        yield SketchError(
            **k.who,
            m=m,
            error=sketch_error(K, sketched) if k.exact else np.nan,
            expected=expected_sketch_error(K, m),
        )


def whole(k: Kernel) -> Whole:
    """The kernel in a few numbers."""
    A = centred_rewards(k.reward, k.prompt)
    noise = gradient_noise(prompt_products(k.K, A, k.prompt))
    return Whole(
        **k.who,
        step=k.step,
        responses=k.prompt.size,
        prompts=np.unique(k.prompt).size,
        parameters=k.parameters,
        trace=float(np.trace(k.K)),
        effective_rank=effective_rank(k.K),
        off_diagonal=off_diagonal_share(k.K),
        noise_scale=noise.value,
        noise_scale_low=noise.low,
        noise_scale_high=noise.high,
        seconds=k.seconds,
    )
