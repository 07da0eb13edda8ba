"""A task of sums that an untrained policy passes now and then."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from entrometer.tasks import register
from entrometer.tasks.registry import Problem, Score, Split


@register("toy")
@dataclass(frozen=True)
class Toy:
    """Right is a response with a digit, well formed one that begins with a letter."""

    name: str = "toy"
    size: int = 10
    right: float = 1.0

    def problems(self, split: Split, count: int | None = None) -> Sequence[Problem]:
        size = self.size if count is None else min(count, self.size)
        return [Problem(i, f"{i}+{split.value}", str(i)) for i in range(size)]

    def prompt(self, problem: Problem) -> str:
        return f"{problem.question}="

    def demonstration(self, problem: Problem, random: Random) -> str:
        return problem.answer

    def score(self, problem: Problem, response: str) -> Score:
        digit = any(c in "0123456789" for c in response)
        return Score(
            answer=self.right if digit else 0.0,
            format=1.0 if response[:1].isalpha() else 0.0,
        )


@register("toy-half")
@dataclass(frozen=True)
class Half(Toy):
    """The same task, with half a point for a right answer."""

    name: str = "toy-half"
    right: float = 0.5
