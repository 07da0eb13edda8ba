"""Cards: the large numbers at the top of a page, rounded by their intervals."""

import math

from entrometer.report.kinds import Card
from entrometer.report.numbers import (
    MISSING,
    Interval,
    number,
    with_interval,
)


def estimate_card(
    estimate: Interval, unit: str, label: str, *, signed: bool = True
) -> Card:
    """Return a card of an estimate; `signed` shows the sign of a positive change."""
    # One rounding for all three, so that value and interval have the same decimals.
    text = with_interval(*estimate)
    body, _, power = text[1:].partition(")") if text.startswith("(") else (text, "", "")
    value, _, ends = body.partition(" [")
    inside = ", ".join(end + power for end in ends.removesuffix("]").split(", "))
    plus = "+" * (signed and 0 < estimate.value < math.inf)
    return Card(plus + value + power, unit, f"[{inside}]" if ends else "", label)


def share_card(share: float, label: str) -> Card:
    """Return a card of a share that has no interval, in whole per cent."""
    return Card(whole_percent(share), "", "", label)


def count_card(some: int, every: int, label: str) -> Card:
    """Return a card of a count, as `some of every`."""
    return Card(f"{some:,} of {every:,}", "", "", label)


def number_card(x: float, unit: str, label: str) -> Card:
    """Return a card of a number that has no interval."""
    return Card(number(x), unit, "", label)


def whole_percent(share: float) -> str:
    """Return a share in whole per cent; `under 1%` for a smaller one."""
    if not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < 0.005:
        return "under 1%"
    return f"{100 * share:,.0f}%".replace("-", "−")


def direction(change: Interval) -> str:
    """Return `falls`, `rises` or `may be unchanged`, by the interval of a change."""
    if change.high < 0:
        return "falls"
    return "rises" if change.low > 0 else "may be unchanged"
