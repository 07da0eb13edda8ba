"""Sums of a few small numbers, with worked solutions in varied wording."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count as count_up
from random import Random
from typing import NamedTuple

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.tasks import template
from entrometer.tasks.registry import Problem, Score, Split, first_problems, register
from entrometer.tasks.verifier import score_number

SIZES = {Split.TEST: 256, Split.TRAIN: 2048}
"""Number of problems of each split, at every level."""


@dataclass(frozen=True, slots=True)
class Level:
    """Number of terms and digits of the sums, and the form of worked solutions."""

    terms: tuple[int, int]  #: Smallest and largest number of terms.
    digits: tuple[int, int]  #: Fewest and most digits of a term; equal in a sum.
    words: bool = True  #: Whether steps are sentences or bare equations.


LEVELS = {
    "tiny": Level(terms=(3, 3), digits=(1, 1), words=False),
    "easy": Level(terms=(3, 3), digits=(1, 1)),
    "medium": Level(terms=(4, 4), digits=(1, 1)),
    "hard": Level(terms=(3, 4), digits=(1, 2)),
}
"""Levels by name, `tiny` for a policy of a million parameters."""


@dataclass(frozen=True, slots=True)
class Sum(Problem):
    """A problem with its arithmetic expression."""

    expression: str  #: Terms and operators, separated by spaces: `7 - 12 + 5`.


@register("arithmetic")
@dataclass(frozen=True)
class Arithmetic:
    """The task `chain_sum` of reasoning-gym, with a short prompt."""

    level: str = "easy"  #: One of `LEVELS`.
    name = "arithmetic"  #: Name in the registry.

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise MissingKey(
                f"expected a level of {list(LEVELS)}, got {self.level!r}; name one of "
                f"them.{nearest_name(self.level, LEVELS)}"
            )

    def problems(self, split: Split, count: int | None = None) -> Sequence[Sum]:
        """Return the first `count` problems of a split, or all; no question repeats."""
        return first_problems(_problems(LEVELS[self.level])[split], split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return template.prompt(problem.question)

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return a worked answer in randomly chosen words.

        Only the wording varies, so a policy that imitates many demonstrations is
        uncertain about words, which costs no answer, more than about numbers.
        """
        if not isinstance(problem, Sum):
            raise InvalidValue(
                f"expected a `Sum`, got a {type(problem).__name__}; "
                "take it from `problems`"
            )
        worked = _sentences if LEVELS[self.level].words else _equations
        return template.response(worked(problem.expression, random), problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        """Return the scores of the last answer block and of the format."""
        return score_number(problem.answer, response)


@lru_cache(maxsize=len(LEVELS))
def _problems(level: Level) -> dict[Split, tuple[Sum, ...]]:
    # Python warns of the syntax of a package that this import compiles (cellpylib).
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        # Imported here: it takes a second (SymPy), and only this function needs it.
        from reasoning_gym.arithmetic.chain_sum import ChainSumConfig, ChainSumDataset

    # One stream for both splits: the stream of seed s + 1 is that of s shifted by one,
    # so two seeds would share their problems.
    (least, most), (short, long) = level.terms, level.digits
    terms = {"min_terms": least, "max_terms": most}
    digits = {"min_digits": short, "max_digits": long}
    stream = ChainSumDataset(ChainSumConfig(**terms, **digits, seed=0))
    expressions: dict[str, None] = {}
    for index in count_up():
        if len(expressions) == sum(SIZES.values()):
            break
        expressions.setdefault(stream[index]["metadata"]["expression"])
    drawn = iter(expressions)
    return {
        split: tuple(_sum(index, next(drawn)) for index in range(size))
        for split, size in SIZES.items()
    }


def _sum(index: int, expression: str) -> Sum:
    *_, last = _steps(expression)
    return Sum(index, f"What is {expression}?", str(last.c), expression)


class _Step(NamedTuple):
    """a + b = c or a - b = c, a step of the sum from left to right."""

    a: int
    minus: bool
    b: int
    c: int


def _steps(expression: str) -> Iterator[_Step]:
    first, *rest = expression.split()
    a = int(first)
    for operator, b in zip(rest[::2], map(int, rest[1::2]), strict=True):
        c = a - b if operator == "-" else a + b
        yield _Step(a, operator == "-", b, c)
        a = c


def _equations(expression: str, random: Random) -> str:
    equation = random.choice(("{sign}{b}={c}", "{a}{sign}{b}={c}"))
    solution = random.choice((",", ";", " ", ". ", ":", "\n")).join(
        equation.format(sign="-" if s.minus else "+", **s._asdict())
        for s in _steps(expression)
    )
    return solution + random.choice(("", ".", "!"))


def _sentences(expression: str, random: Random) -> str:
    steps = list(_steps(expression))
    solution = random.choice(_OPENINGS).format(a=steps[0].a)
    for s in steps:
        solution += random.choice(_JOINTS) if s is not steps[0] else ""
        solution += random.choice(_MINUS if s.minus else _PLUS).format(**s._asdict())
    return solution + random.choice(_ENDINGS).format(c=steps[-1].c)


_OPENINGS = (
    *("", "First, ", "So ", "Start at {a}: ", "Take {a}: ", "We have {a}. "),
    *("Step by step: ", "Okay, "),
)
_JOINTS = (", ", ". ", "; ", " then ", "\n", ", so ", ", now ", ", next ")
_ENDINGS = ("", ".", " so {c}", ", done", "!")
_PLUS = (
    *("{a} + {b} = {c}", "{a}+{b}={c}", "{a} plus {b} is {c}", "add {b} to get {c}"),
    *("adding {b} gives {c}", "from {a} up {b} is {c}", "{a} and {b} make {c}"),
)
_MINUS = (
    *("{a} - {b} = {c}", "{a}-{b}={c}", "{a} minus {b} is {c}"),
    *("subtract {b} to get {c}", "subtracting {b} gives {c}"),
    *("from {a} down {b} is {c}", "{a} and -{b} make {c}"),
)
