"""Sums of a few small numbers, worked out step by step in many different words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count as count_up
from random import Random
from typing import NamedTuple

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.tasks import template
from entrometer.tasks.task import Problem, Score, Split, first
from entrometer.tasks.verifier import verify_number

SIZES = {Split.TEST: 256, Split.TRAIN: 2048}
"""Problems of each split, at every level."""


@dataclass(frozen=True, slots=True)
class Level:
    """How long and how large the sums are, and in how many words they are worked."""

    terms: tuple[int, int]
    """Fewest and most terms."""

    digits: tuple[int, int]
    """Fewest and most digits of a term; all terms of a sum have as many."""

    words: bool = True
    """Whether steps are told in sentences, or as bare equations."""


LEVELS = {
    "tiny": Level(terms=(3, 3), digits=(1, 1), words=False),
    "easy": Level(terms=(3, 3), digits=(1, 1)),
    "medium": Level(terms=(4, 4), digits=(1, 1)),
    "hard": Level(terms=(3, 4), digits=(1, 2)),
}
"""Levels by name, the first for a policy of a million parameters."""


@dataclass(frozen=True, slots=True)
class Sum(Problem):
    """A problem with the sum that it asks for."""

    expression: str
    """Terms and operators, with a blank between any two: `7 - 12 + 5`."""


@dataclass(frozen=True)
class Arithmetic:
    """The task `chain_sum` of reasoning-gym, asked in few words."""

    level: str = "easy"
    """One of `LEVELS`."""

    name = "arithmetic"
    """How the registry calls it."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise MissingKey(
                f"expected a level of {list(LEVELS)}, got {self.level!r}; name one of "
                f"them.{nearest_name(self.level, LEVELS)}"
            )

    def problems(self, split: Split, count: int | None = None) -> Sequence[Sum]:
        """Return the first `count` problems of a split; all of `SIZES` for None.

        No question occurs twice, be it in one split or in both.
        """
        return first(_problems(LEVELS[self.level])[split], split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return template.prompt(problem.question)

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return a worked answer, its words drawn anew in each call.

        The way is always from left to right: what varies is how it is told. So a policy
        that imitates many of them is uncertain of its words, which costs no answer,
        more than of its numbers.
        """
        if not isinstance(problem, Sum):
            raise InvalidValue(
                f"expected a problem with its sum, got a {type(problem).__name__}; "
                "take it from `problems`"
            )
        tell = _in_words if LEVELS[self.level].words else _briefly
        return template.response(tell(problem.expression, random), problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        """Judge a response: the last answer block, and the format by itself."""
        answer = template.extract_answer(response)
        return Score(
            answer=float(bool(answer) and verify_number(problem.answer, answer or "")),
            format=float(template.parse(response) is not None),
        )


@lru_cache(maxsize=len(LEVELS))
def _problems(level: Level) -> dict[Split, tuple[Sum, ...]]:
    # A second of imports, sympy among them, which only this needs.
    from reasoning_gym.arithmetic.chain_sum import ChainSumConfig, ChainSumDataset

    # One stream for both splits: that of seed s + 1 is that of s, moved by one.
    stream = ChainSumDataset(
        ChainSumConfig(
            min_terms=level.terms[0],
            max_terms=level.terms[1],
            min_digits=level.digits[0],
            max_digits=level.digits[1],
            seed=0,
        )
    )
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
    """a + b = c or a - b = c, on the way from the left of a sum to its right."""

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


def _briefly(expression: str, random: Random) -> str:
    equation = random.choice(("{sign}{b}={c}", "{a}{sign}{b}={c}"))
    told = random.choice((",", ";", " ", ". ", ":", "\n")).join(
        equation.format(sign="-" if s.minus else "+", **s._asdict())
        for s in _steps(expression)
    )
    return told + random.choice(("", ".", "!"))


def _in_words(expression: str, random: Random) -> str:
    steps = list(_steps(expression))
    told = random.choice(_OPENINGS).format(a=steps[0].a)
    for s in steps:
        told += random.choice(_JOINTS) if s is not steps[0] else ""
        told += random.choice(_MINUS if s.minus else _PLUS).format(**s._asdict())
    return told + random.choice(_ENDINGS).format(c=steps[-1].c)


_OPENINGS = (
    "",
    "First, ",
    "So ",
    "Start at {a}: ",
    "Take {a}: ",
    "We have {a}. ",
    "Step by step: ",
    "Okay, ",
)
_JOINTS = (", ", ". ", "; ", " then ", "\n", ", so ", ", now ", ", next ")
_ENDINGS = ("", ".", " so {c}", ", done", "!")
_PLUS = (
    "{a} + {b} = {c}",
    "{a}+{b}={c}",
    "{a} plus {b} is {c}",
    "add {b} to get {c}",
    "adding {b} gives {c}",
    "from {a} up {b} is {c}",
    "{a} and {b} make {c}",
)
_MINUS = (
    "{a} - {b} = {c}",
    "{a}-{b}={c}",
    "{a} minus {b} is {c}",
    "subtract {b} to get {c}",
    "subtracting {b} gives {c}",
    "from {a} down {b} is {c}",
    "{a} and -{b} make {c}",
)
