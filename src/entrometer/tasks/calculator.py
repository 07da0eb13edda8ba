"""Arithmetic with a calculator, which computes one step at a time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.tasks import template
from entrometer.tasks.registry import Problem, Score, Split, first_problems, register
from entrometer.tasks.verifier import score_number

SIZES = {Split.TEST: 256, Split.TRAIN: 2048}
"""Number of problems of each split, at every level."""

LONGEST_CALL = 32  #: Most characters between the brackets of a call.

# Anchored, ASCII digits only, and no quantifier inside another: linear in the length.
_STEP = re.compile(r" *(-?[0-9]{1,9}) *([-+*]) *(-?[0-9]{1,9}) *")


@dataclass(frozen=True, slots=True)
class Level:
    """Size of the expressions."""

    terms: int  #: Numbers of an expression; one call fewer is needed.
    largest: int  #: Largest number in a question.


LEVELS = {"easy": Level(terms=3, largest=9), "hard": Level(terms=4, largest=99)}
"""Levels by name, `easy` for a policy of a million parameters."""


@dataclass(frozen=True, slots=True)
class Steps(Problem):
    """A problem with its steps, each on the result of the one before."""

    steps: tuple[tuple[int, str, int], ...]  #: Two numbers and their operator.


@register("calculator")
@dataclass(frozen=True)
class Calculator:
    """Compute `(7-4)*5` with a tool that knows one operation on two numbers.

    A call is an operation in brackets, to which the tool adds its result: after `[7-4]`
    it writes `=3;`. To anything else in brackets it writes `=?;`. What the tool wrote
    is part of the response, and the policy did not write it.
    """

    level: str = "easy"  #: One of `LEVELS`.
    name = "calculator"  #: Name in the registry.
    call_end = "]"  #: Text that completes a call.

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise MissingKey(
                f"expected a level of {list(LEVELS)}, got {self.level!r}; name one of "
                f"them.{nearest_name(self.level, LEVELS)}"
            )

    def problems(self, split: Split, count: int | None = None) -> Sequence[Steps]:
        """Return the first `count` problems of a split, or all; no question repeats."""
        return first_problems(_problems(LEVELS[self.level])[split], split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return f"{problem.question}\n"

    def reply(self, problem: Problem, text: str) -> str | None:
        """Return the result of the call at the end of a response; None for no call."""
        # In an answer brackets are text: what the tool writes is not to be graded.
        if template.ANSWER in text:
            return None
        before, closed, _ = text.rpartition(self.call_end)
        _, opened, call = before.rpartition("[")
        if not (opened and closed):
            return None
        # Parsed and computed, never evaluated: the policy may write anything.
        step = _STEP.fullmatch(call) if len(call) <= LONGEST_CALL else None
        return f"={_result(int(step[1]), step[2], int(step[3])) if step else '?'};"

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return the calls with their results and the answer, in varied wording."""
        if not isinstance(problem, Steps):
            raise InvalidValue(
                f"expected `Steps`, got a {type(problem).__name__}; take it from "
                "`problems`"
            )
        space = random.choice(("", "", " "))
        calls = (
            f"[{a}{space}{operator}{space}{b}]={_result(a, operator, b)};"
            for a, operator, b in problem.steps
        )
        opening, joint = random.choice(_OPENINGS), random.choice(_JOINTS)
        return template.response(opening + joint.join(calls), problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        """Return the scores of the last answer block and of the format."""
        return score_number(problem.answer, response)


_OPENINGS = ("", "", "First ", "So ", "Ask ")
_JOINTS = ("", "", " ", " then ", "\n")


def _result(a: int, operator: str, b: int) -> int:
    if operator == "*":
        return a * b
    return a - b if operator == "-" else a + b


@lru_cache(maxsize=len(LEVELS))
def _problems(level: Level) -> dict[Split, tuple[Steps, ...]]:
    random = Random(0)
    every: dict[str, list[tuple[int, str, int]]] = {}
    while len(every) < sum(SIZES.values()):
        value = random.randint(0, level.largest)
        question, steps = str(value), list[tuple[int, str, int]]()
        for _ in range(level.terms - 1):
            operator, b = random.choice("+-*"), random.randint(0, level.largest)
            # Brackets, so that steps are in the order of the text.
            question = f"({question})" if steps else question
            question += f"{operator}{b}"
            steps.append((value, operator, b))
            value = _result(*steps[-1])
        every.setdefault(question, steps)
    drawn = iter(every.items())
    return {
        split: tuple(_steps(index, *next(drawn)) for index in range(size))
        for split, size in SIZES.items()
    }


def _steps(index: int, question: str, steps: list[tuple[int, str, int]]) -> Steps:
    return Steps(index, question, str(_result(*steps[-1])), tuple(steps))
