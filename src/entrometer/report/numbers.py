"""Numbers as people read them: rounded to their standard error, with a true minus."""

import math
from collections.abc import Sequence

MISSING = "–"
"""What was not measured."""


def number(x: float | int, digits: int = 3) -> str:
    """A number with so many significant digits."""
    if not math.isfinite(x):
        return _special(x)
    if float(x).is_integer() and abs(x) < 1e6:
        return _signed(f"{x + 0.0:,.0f}")
    text = f"{x:.{digits}g}"
    mantissa, e, exponent = text.partition("e")
    return _signed(f"{mantissa}e{int(exponent)}" if e else text)


def with_error(value: float, error: float) -> str:
    """A value ± its standard error, both cut to two digits of the error."""
    if not math.isfinite(value):
        return _special(value)
    if not (math.isfinite(error) and error > 0):
        return number(value)
    scale, decimals = _rounding(max(abs(value), error), error)
    body = f"{value / scale:.{decimals}f} ± {error / scale:.{decimals}f}"
    exponent = round(math.log10(scale))
    return _signed(body if not exponent else f"({body})e{exponent}")


def interval(low: float, high: float) -> str:
    """The ends of an interval, cut to what its width can tell."""
    return _cut((low, high), low, high, "[{}, {}]")


def with_interval(value: float, low: float, high: float) -> str:
    """A value and the ends of its interval, all cut to what the width can tell."""
    return _cut((value, low, high), low, high, "{} [{}, {}]")


def rate(eta: float) -> str:
    """A learning rate in a sentence, on one line."""
    return f"η\u00a0=\u00a0{number(eta, 2)}"


def percent(x: float) -> str:
    """A share as per cent, with two significant digits."""
    if not math.isfinite(100 * x):
        return number(x)
    if abs(x) >= 0.995:
        return _signed(f"{100 * x:,.0f}%")
    return f"{number(100 * x, 2)}%"


def _cut(numbers: Sequence[float], low: float, high: float, form: str) -> str:
    if any(map(math.isnan, numbers)):
        return number(numbers[0]) if len(numbers) > 2 else MISSING
    if not (all(map(math.isfinite, numbers)) and high > low):
        return form.format(*map(number, numbers))
    scale, decimals = _rounding(max(map(abs, numbers)), (high - low) / 4)
    body = form.format(*(_signed(f"{x / scale:.{decimals}f}") for x in numbers))
    exponent = round(math.log10(scale))
    return f"({body})e{exponent}" if exponent else body


def _rounding(largest: float, error: float) -> tuple[float, int]:
    """A power of ten to divide by, and the decimals that are then left."""
    # A power of ten below this one is 0.
    exponent = max(-300, math.floor(math.log10(largest)))
    scale = 10.0**exponent if exponent < -4 or exponent > 5 else 1.0
    smallest = max(error / scale, 1e-12)
    return scale, max(0, 1 - math.floor(math.log10(smallest)))


def _special(x: float) -> str:
    return MISSING if math.isnan(x) else ("∞" if x > 0 else "−∞")


def _signed(text: str) -> str:
    # Exponents keep the ASCII hyphen, so that they can be pasted into code.
    head, e, tail = text.rpartition("e")
    return head.replace("-", "−") + e + tail if e else text.replace("-", "−")
