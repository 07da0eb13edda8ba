"""What a task is: problems, how they are asked, and how an answer is judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from entrometer.errors import InvalidValue


class Split(StrEnum):
    """Problems to train on and problems to judge by never meet."""

    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Problem:
    """A question and what its answer must equal."""

    index: int
    """Place in its split: the prompt id of every table."""

    question: str
    """As a person would ask it, without any template."""

    answer: str
    """The reference answer, which a verifier compares with."""


Asked = TypeVar("Asked", bound=Problem)


class Score(NamedTuple):
    """What a response earned, each part from 0 to 1."""

    answer: float
    """1 where the answer was verified to equal the reference."""

    format: float
    """1 where the response is one `<think>` block, then one `<answer>` block."""


@runtime_checkable
class Task(Protocol):
    """A family of problems with its own way to ask, to demonstrate and to judge."""

    @property
    def name(self) -> str:
        """How the registry and a config call it."""
        ...

    def problems(self, split: Split, count: int | None = None) -> Sequence[Problem]:
        """Return the first `count` problems of a split; all of them for None.

        The same call gives the same problems, on every machine.
        """
        ...

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        ...

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return a right response in the task's format, to imitate."""
        ...

    def score(self, problem: Problem, response: str) -> Score:
        """Judge a response, which is untrusted text of any length."""
        ...


def first(found: Sequence[Asked], split: Split, count: int | None) -> Sequence[Asked]:
    """Return the first `count` problems of those of a split; all of them for None."""
    if count is not None and not 0 <= count <= len(found):
        raise InvalidValue(
            f"expected 0 to {len(found)} problems of the split {split.value}, got "
            f"{count}; ask for at most {len(found)} (--problems {len(found)})"
        )
    return found[:count]
