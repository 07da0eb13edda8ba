"""Times of a little work, for the time of much."""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")


class Line(NamedTuple):
    r"""Seconds of n pieces, $a + bn$."""

    fixed: float
    each: float

    def at(self, count: int) -> float:
        """Seconds of so many."""
        return self.fixed + self.each * count

    @classmethod
    def through(cls, work: Callable[[int], object], counts: tuple[int, int]) -> "Line":
        """The line through the times of two amounts; neither part is below 0."""
        few, more = counts
        at_few, _ = seconds(lambda: work(few))
        if more <= few:
            return cls(0.0, at_few / few)
        at_more, _ = seconds(lambda: work(more))
        each = max(0.0, (at_more - at_few) / (more - few))
        # All of it to the pieces where a fixed part would come out negative.
        if at_few < each * few:
            return cls(0.0, at_more / more)
        return cls(at_few - each * few, each)


def seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """How long something takes, and what it gives."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
