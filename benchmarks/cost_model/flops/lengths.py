"""How long some responses are, and in which batches they go through the model."""

# Axes: N responses.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from entrometer.runs import Rollouts


class Padded(NamedTuple):
    """A batch: sequences padded to one length."""

    sequences: int
    length: int

    @property
    def tokens(self) -> int:
        """Padding included."""
        return self.sequences * self.length


@dataclass(frozen=True, eq=False)
class Lengths:
    """Tokens of each of some responses."""

    prompt: Int[np.ndarray, " N"]
    response: Int[np.ndarray, " N"]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]]) -> "Lengths":
        """From the tokens of the prompt and of the response, of each."""
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return cls(both[:, 0], both[:, 1])

    @property
    def count(self) -> int:
        """Responses."""
        return len(self.prompt)

    @property
    def scored(self) -> int:
        """Tokens of all responses."""
        return int(self.response.sum())

    def expected(self, count: int) -> "Lengths":
        """So many responses like these: evenly spaced quantiles of their length."""
        order = np.argsort(self.prompt + self.response, kind="stable")
        places = (np.arange(count) + 0.5) / max(1, count) * self.count
        chosen = order[places.astype(np.int64)]
        return Lengths(self.prompt[chosen], self.response[chosen])

    def batches(self, budget: int) -> Iterator[Padded]:
        """Batches of at most `budget` padded tokens, as `passes.batches` forms them."""
        total = np.sort(self.prompt + self.response)[::-1]
        first = 0
        while first < total.size:
            longest = int(total[first])
            size = min(max(1, budget // longest), total.size - first)
            yield Padded(size, longest)
            first += size

    def alone(self) -> Iterator[Padded]:
        """Every sequence by itself."""
        for total in self.prompt + self.response:
            yield Padded(1, int(total))


def joined(parts: Sequence[Lengths]) -> Lengths:
    """All responses of some batches."""
    none = [np.zeros(0, np.int64)]
    return Lengths(
        np.concatenate(none + [p.prompt for p in parts]),
        np.concatenate(none + [p.response for p in parts]),
    )


def pairs(rollouts: Rollouts) -> list[tuple[int, int]]:
    """Return the tokens of the prompt and of the response, of each response."""
    prompts = (len(p) for p in rollouts.prompt_tokens)
    return list(zip(prompts, rollouts.length.tolist(), strict=True))
