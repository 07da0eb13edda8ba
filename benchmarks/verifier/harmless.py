"""Answers as people and models write them, to compare with plain math-verify.

Two kinds of answer to a number are judged otherwise on purpose, and are counted apart:
a calculation that is not carried out, and a percentage beside a plain number.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

NOT_CARRIED_OUT = "calculation that is not carried out"
PERCENT = "percentage beside a plain number"


class Pair(NamedTuple):
    """A reference, an answer, and why plain math-verify differs by design, if so."""

    reference: str
    answer: str
    differs: str = ""


class _Written(NamedTuple):
    """A reference and a right answer to it, as one writer writes them."""

    reference: str
    answer: str
    number: bool = True
    """Whether the reference is a number."""

    calculation: bool = False
    """Whether the answer is a calculation."""


def harmless(random: Random, count: int) -> Iterator[Pair]:
    """Draw pairs, half of them right, until `count` are to be judged the same."""
    while count:
        one = random.choice(_WRITERS)(random)
        # A wrong answer is that to another problem, in a notation of its own.
        other = random.choice((one, random.choice(_WRITERS)(random)))
        pair = Pair(one.reference, other.answer, _difference(one, other))
        count -= not pair.differs
        yield pair


def _difference(one: _Written, other: _Written) -> str:
    """Why the grammar of numbers differs here, by what was written alone."""
    if not one.number:
        return ""
    if other.calculation:
        return NOT_CARRIED_OUT
    percent = [
        "%" in text or "percent" in text for text in (one.reference, other.answer)
    ]
    return PERCENT if percent[0] != percent[1] else ""


def _integer(random: Random) -> _Written:
    n = random.choice((1, 1, 1, -1)) * random.randrange(10 ** random.randint(1, 7))
    forms = ("{n}", "{n:,}", "{n}.0", "{n}.", "{n} apples", "${n}", "{n} dollars")
    more = ("x = {n}", "$x = {n}$", "${n}$", r"\boxed{{{n}}}", "The answer is {n}.")
    return _Written(str(n), random.choice((*forms, *more)).format(n=n))


def _decimal(random: Random) -> _Written:
    places = random.randint(1, 4)
    x = random.randrange(10**6) / 10**places
    forms = ("{x}", "${x}", "{x}0", "{x:,}", "${x}$", r"$\boxed{{{x}}}$", "{x} km")
    return _Written(f"{x}", random.choice(forms).format(x=x))


def _fraction(random: Random) -> _Written:
    a, b, k = random.randint(-30, 30), random.randint(2, 16), random.randint(1, 5)
    forms = ("{a}/{b}", r"\frac{{{a}}}{{{b}}}", r"$\frac{{{a}}}{{{b}}}$", "${a}/{b}$")
    form = random.choice((*forms, r"\boxed{{\frac{{{a}}}{{{b}}}}}"))
    # 6/3 is a division to carry out, so it is no number by the grammar.
    whole = a % b == 0
    answer = form.format(a=a * k, b=b * k)
    return _Written(f"{a}/{b}", answer, number=not whole, calculation=whole)


def _percent(random: Random) -> _Written:
    n = random.randint(1, 250)
    forms = ("{n}%", r"{n}\%", r"${n}\%$", "{n} percent", "{x}", "{n}")
    return _Written(f"{n}%", random.choice(forms).format(n=n, x=n / 100))


_SUMS = ("{a} + {b}*{c}", "({a} + {b}*{c})", r"${a} + {b} \cdot {c}$", "{a}+{b}*{c}")


def _worked_out(random: Random) -> _Written:
    """A number for a reference, and a calculation for half of the answers."""
    a, b, c = (random.randint(1, 40) for _ in range(3))
    forms = (*_SUMS, r"${a} + {b} \times {c} = {n}$", *("{n}",) * 4)
    form = random.choice(forms)
    answer = form.format(a=a, b=b, c=c, n=a + b * c)
    return _Written(str(a + b * c), answer, calculation=form != "{n}")


def _sum(random: Random) -> _Written:
    """A calculation for a reference, which math-verify works out."""
    a, b, c = (random.randint(1, 40) for _ in range(3))
    forms = (*_SUMS, "{n}", "${n}$", "{n}.0", r"\boxed{{{n}}}")
    form = random.choice(forms)
    return _Written(
        f"{a} + {b}*{c}",
        form.format(a=a, b=b, c=c, n=a + b * c),
        number=False,
        calculation=form in _SUMS,
    )


def _symbolic(random: Random) -> _Written:
    a, b = random.randint(1, 9), random.randint(1, 9)
    forms = ("$x^2 + {s}x + {p}$", "$(x + {a})(x + {b})$", "${p} + {s}x + x^2$")
    answer = random.choice(forms).format(a=a, b=b, s=a + b, p=a * b)
    return _Written(f"$x^2 + {a + b}x + {a * b}$", answer, number=False)


# Symbols are rare in what these tasks ask, and slow in any verifier.
_WRITERS = (
    *(_integer,) * 20,
    *(_decimal,) * 10,
    *(_fraction,) * 8,
    *(_percent,) * 4,
    *(_worked_out,) * 4,
    *(_sum,) * 4,
    _symbolic,
)
