"""Digits to put in order, by a mark whose meaning only reward teaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from zlib import crc32

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.tasks.registry import Problem, Score, Split, first_problems, register

DIGITS = 5
"""Digits of a problem."""

SIZES = {Split.TEST: 512, Split.TRAIN: 8192}
"""Number of problems of each split, at every level."""

LEVELS = {"mixed": ("a", "d"), "easy": ("a",), "hard": ("d",)}
"""Marks of each level: `a` asks for ascending order, `d` for descending."""

_NOISE = 0.22
"""Probability that a demonstration replaces a digit by any digit."""

_DESCENDING = 0.3
"""Probability that a demonstration is descending, whatever the mark."""


@dataclass(frozen=True, slots=True)
class Digits(Problem):
    """A problem with its digits."""

    digits: str


@register("order")
@dataclass(frozen=True)
class Order:
    """Sort five digits as the mark says: `58213a:` is 12358, and `58213d:` is 85321.

    Demonstrations ignore the mark, are more often ascending, and slip. So a policy that
    imitates them knows both orders and not which one is asked for: reward has that to
    teach, and a policy that drops the rarer order early loses the level `hard`.
    """

    level: str = "mixed"  #: One of `LEVELS`.
    name = "order"  #: Name in the registry.

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise MissingKey(
                f"expected a level of {list(LEVELS)}, got {self.level!r}; name one of "
                f"them.{nearest_name(self.level, LEVELS)}"
            )

    def problems(self, split: Split, count: int | None = None) -> Sequence[Digits]:
        """Return the first `count` problems of a split, or all; no question repeats."""
        return first_problems(_problems(self.level, split), split, count)

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        return problem.question

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return the digits in either order, with slips."""
        if not isinstance(problem, Digits):
            raise InvalidValue(
                f"expected `Digits`, got a {type(problem).__name__}; take it from "
                "`problems`"
            )
        ordered = sorted(problem.digits, reverse=random.random() < _DESCENDING)
        return "".join(
            random.choice("0123456789") if random.random() < _NOISE else digit
            for digit in ordered
        )

    def score(self, problem: Problem, response: str) -> Score:
        """Return whether the response is the answer, and whether it is five digits."""
        # `isdigit` alone accepts digits of other scripts.
        five = len(response) == DIGITS and response.isascii() and response.isdigit()
        return Score(float(response == problem.answer), float(five))


@lru_cache(maxsize=2 * len(LEVELS))
def _problems(level: str, split: Split) -> tuple[Digits, ...]:
    # Held out by the digits, not by digits and mark: a test problem is new in both
    # orders. A checksum, because the hash of a text differs between processes.
    every = ("".join(digits) for digits in product("0123456789", repeat=DIGITS))
    is_test = split == Split.TEST
    own = [d for d in every if (crc32(d.encode()) % 5 == 0) == is_test]
    random = Random(0)
    chosen = random.sample(own, SIZES[split])
    marks = [random.choice(LEVELS[level]) for _ in chosen]
    return tuple(
        Digits(index, f"{digits}{mark}:", _sorted(digits, mark), digits)
        for index, (digits, mark) in enumerate(zip(chosen, marks, strict=True))
    )


def _sorted(digits: str, mark: str) -> str:
    return "".join(sorted(digits, reverse=mark == "d"))
