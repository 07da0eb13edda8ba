"""What an evaluation measures, complete."""

import math
from dataclasses import dataclass
from typing import Literal

from entrometer.errors import InvalidValue
from entrometer.tasks.registry import Split

# The values of the policies' Precision, whose home would bring torch along.
PrecisionName = Literal["float32", "float64", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How every checkpoint of a run is judged; the same for all of them."""

    split: Split = Split.TEST
    """Problems to judge by."""

    problems: int | None = None
    """The first so many problems of the split; None for all."""

    fraction: float = 1.0
    """Share of those that is evaluated, above 0. A larger one contains a smaller."""

    responses: int = 8
    """Responses n to each problem."""

    ks: tuple[int, ...] = (1, 8)
    """Each k of pass@k, at most n. pass@1 is always there."""

    temperature: float = 1.0
    """Of sampling, and of the policy whose entropy is measured."""

    max_tokens: int = 256
    """Length limit of a response."""

    seed: int = 0
    """Of the responses: a problem's n-th response has one seed in every checkpoint."""

    precision: PrecisionName = "float32"
    """What the policies compute in."""

    shard_prompts: int = 16
    """Problems of a shard: what is lost, at most, when an evaluation is killed."""

    batch_tokens: int = 2**14
    """Most tokens in the key-value cache at once. Changes results by rounding alone."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is sampled."""
        counts = {
            "problems": 1 if self.problems is None else self.problems,
            "responses": self.responses,
            "max_tokens": self.max_tokens,
            "shard_prompts": self.shard_prompts,
            "batch_tokens": self.batch_tokens,
        }
        for name, count in counts.items():
            if count < 1:
                raise InvalidValue(f"expected {name} of at least 1, got {count}")
        if not 0 < self.fraction <= 1:
            raise InvalidValue(
                f"expected a fraction above 0 and up to 1, got {self.fraction}"
            )
        if not 0 < self.temperature < math.inf:
            raise InvalidValue(
                f"expected a temperature above 0, got {self.temperature}; a greedy "
                "response has no entropy, and n of them are one"
            )
        if self.seed < 0:
            raise InvalidValue(f"expected a seed of at least 0, got {self.seed}")
        if not all(1 <= k <= self.responses for k in self.ks):
            raise InvalidValue(
                f"expected each k from 1 to the {self.responses} responses of a "
                f"problem, got {self.ks}; raise `responses`, or drop the larger k"
            )

    @property
    def all_ks(self) -> tuple[int, ...]:
        """Each k of the results, ascending, 1 among them."""
        return tuple(sorted({1, *self.ks}))
