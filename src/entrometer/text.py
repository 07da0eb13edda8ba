"""Text for a terminal: plain lines, tables, intervals, times, and JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


def plain(text: object) -> str:
    """Return the text on one line, with unprintable characters replaced by spaces."""
    spaced = "".join(c if c.isprintable() else " " for c in str(text))
    return " ".join(spaced.split())


def file_size(count: int | float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, label_columns: int = 1
) -> str:
    """Return a text table; its first `label_columns` align left, the others right."""
    lines = [list(heads), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i < label_columns else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def listed(names: Sequence[object], most: int, between: str = ", ") -> str:
    """Return the first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" * (len(names) > most)
    return between.join(map(str, names[:most])) + more


def interval(value: float, low: float, high: float, *, scale: float = 1.0) -> str:
    """Return the text `value [low, high]`, each number times `scale`.

    All three have the decimals that the width of the interval justifies.
    """
    if math.isnan(value):
        return "not known"
    if math.isnan(low) and math.isnan(high):
        return f"{scale * value:+.3g} [not known]"
    numbers = [scale * x for x in (value, low, high)]
    if not any(numbers):
        return "exactly 0"
    if not (all(map(math.isfinite, numbers)) and numbers[2] > numbers[1]):
        return "{:+.3g} [{:+.3g}, {:+.3g}]".format(*numbers)
    power, decimals = rounding(
        max(map(abs, numbers)), standard_error=(numbers[2] - numbers[1]) / 4
    )
    exponent = f"e{power}" if power else ""
    shown = [f"{x / 10.0**power:+.{decimals}f}{exponent}" for x in numbers]
    return "{} [{}, {}]".format(*shown)


def interval_of(row: object, name: str, *, scale: float = 1.0) -> str:
    """Return `value [low, high]` of a column of a row, from `x`, `x_low`, `x_high`."""
    value, low, high = (getattr(row, name + end) for end in ("", "_low", "_high"))
    return interval(value, low, high, scale=scale)


def rounding(largest: float, standard_error: float) -> tuple[int, int]:
    """Return the power of ten to factor out, and the decimals to show after it.

    They leave two digits of the standard error. `largest` is the largest absolute value
    of the numbers that share the rounding.
    """
    # Below 1e-300 the power of ten would underflow to 0.
    exponent = max(-300, math.floor(math.log10(largest)))
    power = exponent if exponent < -4 or exponent > 3 else 0
    smallest = max(standard_error / 10.0**power, 1e-12)
    return power, max(0, 1 - math.floor(math.log10(smallest)))


def clock(seconds: float) -> str:
    """Return a number of seconds as the text 0:42, 12:00 or 1:30:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def print_json(content: Any, *, indent: int | None = None) -> None:
    """Print values or a dataclass as JSON; NaN and infinity become null."""
    print(json.dumps(_jsonable(content), indent=indent, allow_nan=False))


def _jsonable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def precision_text(precision: str) -> str:
    """Return a precision as a sentence names it: `float32`, or `mixed precision`."""
    return "mixed precision" if precision == "mixed" else precision
