"""Columns of a table: functions from a row of a result table to the text of a cell."""

from collections.abc import Callable
from typing import Any

from entrometer.report import numbers

Cell = Callable[[Any], str]


def text(name: str) -> Cell:
    """Return a function that gives field `name` of a row as text."""
    return lambda row: str(getattr(row, name))


def number(name: str, digits: int = 3) -> Cell:
    """Return a function that gives field `name` of a row as a rounded number."""
    return lambda row: numbers.number(getattr(row, name), digits)


def percent(name: str) -> Cell:
    """Return a function that gives field `name` of a row, a share, in per cent."""
    return lambda row: numbers.percent(getattr(row, name))


def error(name: str) -> Cell:
    """Return a function that gives `name` of a row ± its standard error `name_se`."""
    return lambda row: numbers.with_error(
        getattr(row, name), getattr(row, f"{name}_se")
    )


def ends(name: str) -> Cell:
    """Return a function that gives a row's 95% interval of `name` as `[low, high]`."""
    names = (f"{name}_low", f"{name}_high")
    return lambda row: numbers.interval(*(getattr(row, n) for n in names))


def interval(name: str) -> Cell:
    """Return a function that gives `name` of a row with its 95% interval."""
    return lambda row: str(numbers.Interval.of(row, name))
