"""Columns of a table: functions from a row of a result table to the text of a cell."""

from collections.abc import Callable
from typing import Any

from entrometer.report import numbers

Cell = Callable[[Any], str]


def text(name: str) -> Cell:
    """Cell of a text column."""
    return lambda row: str(getattr(row, name))


def number(name: str, digits: int = 3) -> Cell:
    """Cell of a number."""
    return lambda row: numbers.number(getattr(row, name), digits)


def percent(name: str) -> Cell:
    """Cell of a share."""
    return lambda row: numbers.percent(getattr(row, name))


def error(name: str) -> Cell:
    """Cell of a value ± its standard error."""
    return lambda row: numbers.with_error(
        getattr(row, name), getattr(row, f"{name}_se")
    )


def ends(name: str) -> Cell:
    """Cell of the ends of a 95% interval."""
    names = (f"{name}_low", f"{name}_high")
    return lambda row: numbers.interval(*(getattr(row, n) for n in names))


def interval(name: str) -> Cell:
    """Cell of a value with its 95% interval."""
    return lambda row: str(numbers.Interval.of(row, name))
