"""Cards on an update's batch: groups with signal, and the part that momentum makes."""

import math
from collections.abc import Sequence

from entrometer.report.cards import count_card, estimate_card, whole_percent
from entrometer.report.kinds import Card
from entrometer.report.numbers import Interval
from entrometer.runs.tables.signal import UpdateSignal

_UNITS = {"entropy": "nats per token", "log-prob": "nats per response"}


def signal_cards(rows: Sequence[UpdateSignal], eta: float = math.nan) -> list[Card]:
    """Return the cards of a single update; none for several.

    The momentum card is left out if it is for another learning rate than `eta`.
    """
    if len(rows) != 1:
        return []
    (row,) = rows
    cards = []
    if math.isnan(eta) or math.isclose(row.eta, eta, rel_tol=1e-6):
        cards.append(momentum_card(row))
    label = "prompt groups give a gradient: their rewards differ"
    return [*cards, count_card(row.groups_with_signal, row.groups, label)]


def momentum_card(row: UpdateSignal) -> Card:
    """Return the card of the part of the predicted change that momentum makes."""
    part = momentum_share(row)
    share = f", {whole_percent(part)} of the prediction" if part > 0 else ""
    label = f"from momentum of earlier batches{share}"
    unit = _UNITS.get(row.quantity, "")
    return estimate_card(Interval.of(row, "momentum"), unit, label)


def momentum_share(row: UpdateSignal) -> float:
    """Return momentum's share of the predicted change; NaN if the parts oppose.

    Parts of opposite sign have no share: theirs would be below 0 or above 1.
    """
    share = row.momentum / row.predicted if row.predicted else math.nan
    return share if 0 <= share <= 1 else math.nan
