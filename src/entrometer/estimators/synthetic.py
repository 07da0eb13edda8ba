"""Many small batches from one large one: how estimates scatter, without a model."""

# Axes: P prompts of a batch, B synthetic batches.

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.prompt_sums import PromptSums


def synthetic_batches(
    parts: Sequence[PromptSums], *, size: int, batches: int, seed: int
) -> Iterator[tuple[PromptSums, ...]]:
    """Batches of `size` prompts drawn with replacement, the same draw for every part.

    Each draw counts as a prompt of its own. `parts` are statistics of the same prompts.
    """
    first = parts[0]
    if any(not np.array_equal(part.prompt, first.prompt) for part in parts):
        raise InvalidValue(
            "expected statistics of the same prompts, got others; make all of them on "
            "one batch"
        )
    rng = np.random.default_rng(seed)
    names = np.arange(size)
    for _ in range(batches):
        drawn = rng.integers(first.prompts, size=size)
        yield tuple(
            PromptSums(part.columns, names, part.sums[drawn], part.largest_weight)
            for part in parts
        )


def scatter(
    parts: Sequence[PromptSums],
    estimate: Callable[..., float],
    *,
    size: int,
    batches: int,
    seed: int,
) -> Float[np.ndarray, " B"]:
    """An estimate, a function of the parts, on each synthetic batch."""
    drawn = synthetic_batches(parts, size=size, batches=batches, seed=seed)
    return np.array([estimate(*batch) for batch in drawn])
