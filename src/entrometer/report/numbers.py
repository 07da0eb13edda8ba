"""Numbers as text for people: rounded, and with a true minus sign."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from entrometer.text import rounding

MISSING = "–"
"""Stands for a value that was not measured."""


class Interval(NamedTuple):
    """A value with its 95% interval; NaN if it was not measured."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, row: Any, name: str) -> "Interval":
        """Return `name` of a row, with ends from `name_low` and `name_high`."""
        return cls(*(getattr(row, name + end) for end in ("", "_low", "_high")))

    @property
    def known(self) -> bool:
        """Whether the value is finite; NaN was not measured."""
        return math.isfinite(self.value)

    def __str__(self) -> str:
        """`value [low, high]`, rounded by the width of the interval."""
        return with_interval(*self)


def number(x: float | int, digits: int = 3) -> str:
    """Return a number to `digits` significant digits; integers below 1e6 in full."""
    if not math.isfinite(x):
        return _special(x)
    if float(x).is_integer() and abs(x) < 1e6:
        return _signed(f"{x + 0.0:,.0f}")
    text = f"{x:.{digits}g}"
    mantissa, e, exponent = text.partition("e")
    return _signed(f"{mantissa}e{int(exponent)}" if e else text)


def with_error(value: float, error: float) -> str:
    """Return a value ± its standard error, rounded to two digits of the error."""
    if not math.isfinite(value):
        return _special(value)
    if not (math.isfinite(error) and error > 0):
        return number(value)
    power, decimals = rounding(max(abs(value), error), error)
    body = " ± ".join(f"{x / 10.0**power:.{decimals}f}" for x in (value, error))
    return _signed(body if not power else f"({body})e{power}")


def interval(low: float, high: float) -> str:
    """Return `[low, high]` as text, with as many decimals as its width justifies."""
    return _rounded((low, high), low, high, "[{}, {}]")


def with_interval(value: float, low: float, high: float) -> str:
    """Return `value [low, high]` as text, with decimals as the width justifies."""
    return _rounded((value, low, high), low, high, "{} [{}, {}]")


def reward_words(reward: float) -> str:
    """Return `reward` and its number as text, or `not scored` for NaN."""
    return "not scored" if math.isnan(reward) else f"reward {number(reward)}"


def rate(eta: float) -> str:
    """Return a learning rate as `η = 1e-6`, with spaces that do not break."""
    return f"η\u00a0=\u00a0{number(eta, 2)}"


def percent(x: float) -> str:
    """Return a share in per cent, with two significant digits."""
    if not math.isfinite(100 * x):
        return number(x)
    if abs(x) >= 0.995:
        return _signed(f"{100 * x:,.0f}%")
    return f"{number(100 * x, 2)}%"


def span(values: Iterable[float], digits: int = 2) -> str:
    """Return the smallest and the largest value, or one number if they look equal."""
    known = list(values)
    low, high = number(min(known), digits), number(max(known), digits)
    return low if low == high else f"{low} to {high}"


def _rounded(numbers: Sequence[float], low: float, high: float, form: str) -> str:
    if not any(numbers):
        # A part of the update that is switched off changes nothing, without any noise.
        return "exactly 0"
    if any(map(math.isnan, numbers)):
        return number(numbers[0]) if len(numbers) > 2 else MISSING
    if not (all(map(math.isfinite, numbers)) and high > low):
        return form.format(*map(number, numbers))
    power, decimals = rounding(max(map(abs, numbers)), (high - low) / 4)
    shown = (f"{x / 10.0**power:.{decimals}f}" for x in numbers)
    body = form.format(*map(_signed, shown))
    return f"({body})e{power}" if power else body


def _special(x: float) -> str:
    return MISSING if math.isnan(x) else ("∞" if x > 0 else "−∞")


def _signed(text: str) -> str:
    # Exponents keep the ASCII hyphen, so that they can be pasted into code.
    head, e, tail = text.rpartition("e")
    return head.replace("-", "−") + e + tail if e else text.replace("-", "−")
