"""Per-prompt sums: the mergeable statistics that every estimator is made from."""

# Axes: N responses, P prompts, M statistics, B synthetic batches.

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Real

from entrometer.errors import InvalidValue, MissingKey, nearest_name


@dataclass(frozen=True, eq=False)
class PromptSums:
    """Sums of named statistics over the responses of each prompt.

    Sums of chunks or shards merge into the same totals in any order, even if several
    of them hold responses to the same prompt. Memory is one row per prompt, whatever
    the number of tokens: a million prompts with ten statistics take 80 MB.
    """

    columns: tuple[str, ...]
    """Names of the statistics."""
    prompt: Int[np.ndarray, " P"]
    """Prompt ids, ascending."""
    sums: Float[np.ndarray, "P M"]
    """One row per prompt, one column per statistic."""
    largest_weight: float = 1.0
    """Largest importance weight of a response."""

    @classmethod
    def of(
        cls,
        prompt: Int[np.ndarray, " N"],
        *,
        largest_weight: float = 1.0,
        **statistics: Real[np.ndarray, " N"],
    ) -> "PromptSums":
        """Return the sums of one chunk, from one number per response and statistic."""
        rows = np.stack(
            [np.asarray(s, np.float64) for s in statistics.values()], axis=1
        )
        unique, sums = _sum_by_prompt(prompt, rows)
        return cls(tuple(statistics), unique, sums, largest_weight)

    @classmethod
    def merge(cls, parts: Iterable["PromptSums"]) -> "PromptSums":
        """Return the sums of all parts together.

        Parts of similar size are merged first, as in a binary counter: n parts with P
        prompts in total cost P log n, and an iterator is never held in memory whole.
        """
        stack: list[PromptSums] = []
        for part in parts:
            stack.append(part)
            while len(stack) > 1 and stack[-1].prompt.size >= stack[-2].prompt.size:
                stack.append(_merge_two(stack.pop(), stack.pop()))
        if not stack:
            raise InvalidValue(
                "expected at least one part to merge, got none; pass the statistics of "
                "at least one chunk"
            )
        while len(stack) > 1:
            stack.append(_merge_two(stack.pop(), stack.pop()))
        return stack[0]

    @property
    def prompts(self) -> int:
        """Number of prompts P."""
        return self.prompt.size

    def of_prompts(self, column: str) -> Float[np.ndarray, " P"]:
        """Return the sum of one statistic for each prompt, ids ascending."""
        if column not in self.columns:
            raise MissingKey(
                f"expected one of {', '.join(self.columns)}, got {column!r};"
                f"{nearest_name(column, self.columns)} these sums are for another "
                "estimator; pass the statistics made for this one"
            )
        return np.asarray(self.sums[:, self.columns.index(column)])

    def total(self, column: str) -> float:
        """Return one statistic summed over all prompts, in the order of their ids."""
        return float(self.of_prompts(column).sum())


def _sum_by_prompt(
    prompt: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(prompt, kind="stable")
    ids = prompt[order]
    first = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    return ids[first], np.add.reduceat(rows[order], first, axis=0)


def _merge_two(a: PromptSums, b: PromptSums) -> PromptSums:
    if a.columns != b.columns:
        raise InvalidValue(
            f"expected parts with the statistics {a.columns}, got {b.columns}; "
            "merge only parts made by the same function"
        )
    unique, sums = _sum_by_prompt(
        np.concatenate([a.prompt, b.prompt]), np.concatenate([a.sums, b.sums])
    )
    return PromptSums(a.columns, unique, sums, max(a.largest_weight, b.largest_weight))


def synthetic_batches(
    parts: Sequence[PromptSums], *, size: int, batches: int, seed: int
) -> Iterator[tuple[PromptSums, ...]]:
    """Yield batches of `size` prompts drawn with replacement, the same for every part.

    A prompt drawn twice counts as two prompts.
    """
    first = parts[0]
    if any(not np.array_equal(part.prompt, first.prompt) for part in parts):
        raise InvalidValue(
            "expected statistics of the same prompts, got different prompts; compute "
            "all of them on one batch"
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
    """Return the number `estimate(*parts)` on each of the synthetic batches."""
    drawn = synthetic_batches(parts, size=size, batches=batches, seed=seed)
    return np.array([estimate(*batch) for batch in drawn])
