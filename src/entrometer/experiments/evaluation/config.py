"""Settings of an evaluation."""

from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import CheckpointConfig
from entrometer.tasks.registry import Split


@dataclass(frozen=True, kw_only=True)
class EvalConfig(CheckpointConfig):
    """How every checkpoint is evaluated: on which problems, with how many responses."""

    split: Split = Split.TEST
    """Split of the problems."""

    problems: int = 128
    """Use the first so many problems of the split; 0 for all."""

    fraction: float = 1.0
    """Share of those problems to evaluate; a larger share contains a smaller one."""

    responses: int = 8
    """Responses n per problem; a problem's i-th response has the same seed at every
    checkpoint."""

    ks: tuple[int, ...] = (1, 8)
    """Each k of pass@k, at most n; pass@1 is always computed."""

    max_tokens: int = 256
    """Length limit of a response, in tokens."""

    shard: int = 128
    """Responses per shard: the most work that is lost when a run is stopped."""

    OWN: ClassVar[frozenset[str]] = frozenset({"problems"})
    AT_LEAST: ClassVar[dict[str, int]] = CheckpointConfig.AT_LEAST | {
        "problems": 0,
        "responses": 1,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.fraction <= 1:
            raise InvalidValue(
                f"expected a fraction above 0 and up to 1, got {self.fraction}"
            )
        # pass@k is estimated from subsets of k of the n responses.
        if not all(1 <= k <= self.responses for k in self.ks):
            raise InvalidValue(
                f"expected each k from 1 to the {self.responses} responses per "
                f"problem, got {self.ks}; raise --responses, or drop k out of range"
            )

    @property
    def all_ks(self) -> tuple[int, ...]:
        """Each k of the results, ascending, 1 among them."""
        return tuple(sorted({1, *self.ks}))
