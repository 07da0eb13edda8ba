"""Per-prompt partial statistics: what every estimator is made of, and what merges."""

# Axes: N responses, P prompts, M statistics.

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Real

from entrometer.errors import InvalidValue, MissingKey, nearest_name


@dataclass(frozen=True, eq=False)
class PromptSums:
    """Sums of named statistics over the responses of each prompt.

    Parts computed on chunks or shards, in any order and even with a prompt's responses
    spread over several of them, merge into the same sums. Memory is one row a prompt,
    whatever the number of tokens: a million prompts with ten statistics are 80 MB.
    """

    columns: tuple[str, ...]
    """Names of the statistics."""

    prompt: Int[np.ndarray, " P"]
    """Prompt ids, ascending."""

    sums: Float[np.ndarray, "P M"]
    """One row a prompt, one column a statistic."""

    largest_weight: float = 1.0
    """Largest importance weight of any one response."""

    @classmethod
    def of(
        cls,
        prompt: Int[np.ndarray, " N"],
        *,
        largest_weight: float = 1.0,
        **statistics: Real[np.ndarray, " N"],
    ) -> "PromptSums":
        """Sums of one chunk, from one number a response for each statistic."""
        rows = np.stack(
            [np.asarray(s, np.float64) for s in statistics.values()], axis=1
        )
        unique, sums = _sum_by_prompt(prompt, rows)
        return cls(tuple(statistics), unique, sums, largest_weight)

    @classmethod
    def merge(cls, parts: Iterable["PromptSums"]) -> "PromptSums":
        """Sums of all parts together.

        Parts of like size are merged first, as in a binary counter: n parts with P
        prompts in all cost P log n, and an iterator is never held whole.
        """
        stack: list[PromptSums] = []
        for part in parts:
            stack.append(part)
            while len(stack) > 1 and stack[-1].prompt.size >= stack[-2].prompt.size:
                stack.append(_merge_two(stack.pop(), stack.pop()))
        if not stack:
            raise InvalidValue("expected at least one part to merge, got none")
        while len(stack) > 1:
            stack.append(_merge_two(stack.pop(), stack.pop()))
        return stack[0]

    @property
    def prompts(self) -> int:
        """Number of prompts P."""
        return self.prompt.size

    def of_prompts(self, column: str) -> Float[np.ndarray, " P"]:
        """One statistic, a number a prompt."""
        if column not in self.columns:
            raise MissingKey(
                f"expected one of {', '.join(self.columns)}, got {column!r};"
                f"{nearest_name(column, self.columns)} these sums were made for "
                "another estimator"
            )
        values: np.ndarray = self.sums[:, self.columns.index(column)]
        return values

    def total(self, column: str) -> float:
        """One statistic summed over all prompts, in the order of their ids."""
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
            "merge only parts that the same function made"
        )
    unique, sums = _sum_by_prompt(
        np.concatenate([a.prompt, b.prompt]), np.concatenate([a.sums, b.sums])
    )
    return PromptSums(a.columns, unique, sums, max(a.largest_weight, b.largest_weight))
