"""What a row of a table is about, and the names by which figures tell rows apart."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

Item = TypeVar("Item")


class Subject(NamedTuple):
    """What was measured."""

    run: str
    checkpoint: str
    update: str
    precision: str


def tell_apart(subjects: Sequence[Subject]) -> dict[Subject, str]:
    """A name for each: the parts in which they differ, or the checkpoint alone."""
    columns = list(zip(*subjects, strict=True))
    told = [i for i, column in enumerate(columns) if len(set(column)) > 1] or [1]
    return {s: ", ".join(s[i] for i in told) for s in subjects}


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many, evenly from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i)] for i in np.linspace(0, len(items) - 1, most)]


def drawn(some: Sequence[object], of: Sequence[object]) -> str:
    """A sentence for what a figure had no room for."""
    if len(some) == len(of):
        return ""
    return f" Drawn are {len(some)} of {len(of)}; the table has all."
