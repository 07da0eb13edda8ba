"""A property, what has it, and a broken copy that must be caught without it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 8)
seeded = st.tuples(seeds, sizes)
"""A seed for the numbers and a size for the batch."""


@dataclass(frozen=True)
class Property:
    """A statement about any implementation of one thing, true of ours."""

    name: str
    """The statement."""

    check: Callable[[Callable[..., Any], Any], None]
    """Raises AssertionError where an implementation breaks it on a case."""

    real: Callable[..., Any]
    """What the package does."""

    broken: Callable[..., Any]
    """The same with a mistake that is easily made."""

    case: st.SearchStrategy[Any] = seeded
    """What is drawn."""


def holds(it: Property) -> None:
    """Try the real implementation on drawn cases."""
    _search(it, it.real)


def catches_broken_copy(it: Property) -> None:
    """Try the broken one: the check must fail on a drawn case, and as a check."""
    with pytest.raises(AssertionError):
        _search(it, it.broken)


def each(properties: list[Property]) -> pytest.MarkDecorator:
    names = [it.name for it in properties]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("it", properties, ids=names)


def _search(it: Property, implementation: Callable[..., Any]) -> None:
    # Nothing is shrunk or stored: the seed of a failing case is as good as any other.
    @settings(
        max_examples=40,
        phases=[Phase.generate],
        database=None,
        report_multiple_bugs=False,
    )
    @given(case=it.case)
    def search(case: Any) -> None:
        it.check(implementation, case)

    search()
