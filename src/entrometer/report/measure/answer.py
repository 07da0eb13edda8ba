"""What a measurement says first: what the next step does to entropy."""

import math
from collections.abc import Sequence

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    whole_percent,
)
from entrometer.report.kinds import Answer, Card
from entrometer.report.measure.curves import Curve, MeasureRun, best_precision, curves
from entrometer.report.numbers import Interval, rate
from entrometer.report.signal import signal_cards
from entrometer.runs.tables.measure import Change

_NATS = "nats per token"
_FAR = 500
"""Steps beyond which the change of one step says nothing."""
_VERBS = {"falls": "lowers", "rises": "raises"}


def answer(run: MeasureRun) -> Answer | None:
    """Return the change at the training's learning rate; None if it is not known."""
    every = best_precision(curves([run]))
    pairs = [(curve, c) for curve in every if (c := curve.at_training())]
    if not pairs:
        return None
    return _one(run, *pairs[0]) if len(pairs) == 1 else _several(pairs)


def _one(run: MeasureRun, curve: Curve, c: Change) -> Answer:
    change = Interval.of(c, "observed")
    way = direction(change)
    h = curve.term.entropy if curve.term else math.nan
    part = whole_percent(abs(change.value) / h) if h > 0 else "a part"
    if way in _VERBS:
        title = f"the next step {_VERBS[way]} entropy by {part}"
        text = (
            f"At {rate(c.eta)}, the training's learning rate, one step {_VERBS[way]} "
            f"entropy by {part} of what it is.{_halved(h, change)}"
        )
    else:
        title = "no change of entropy is seen beyond noise"
        text = (
            f"At {rate(c.eta)}, the training's learning rate, the 95% interval of the "
            "change contains 0."
        )
    signal = [
        s
        for s in run.tables.signal
        if (s.checkpoint, s.update) == (c.checkpoint, c.update)
    ]
    cards = [
        estimate_card(change, _NATS, "entropy change of the next step, observed"),
        estimate_card(Interval.of(c, "linear"), _NATS, "the same, by its slope"),
        *signal_cards(signal, c.eta),
    ]
    if curve.term:
        now = Interval.of(curve.term, "entropy")
        cards.insert(1, estimate_card(now, _NATS, "entropy now", signed=False))
    return Answer(title, text, tuple(cards))


def _halved(entropy: float, change: Interval) -> str:
    """Return after how many steps like this one half of the entropy is gone."""
    if not (entropy > 0 and change.high < 0):
        return ""
    steps = [entropy / 2 / -x for x in (change.value, change.low, change.high)]
    # Beyond some hundred steps the policy is another one.
    if not 1 <= steps[0] <= _FAR:
        return ""
    middle, first, last = (f"{x:,.0f}" for x in steps)
    return (
        f" If every step did the same, half of it would be gone after {middle} steps "
        f"(95%: {first} to {last})."
    )


def _several(pairs: Sequence[tuple[Curve, Change]]) -> Answer:
    ways = [direction(Interval.of(c, "observed")) for _, c in pairs]
    falls, rises = ways.count("falls"), ways.count("rises")
    most = min(pairs, key=lambda pair: pair[1].observed)
    worst = Interval.of(most[1], "observed")
    count = len(pairs)
    title = (
        f"the next step lowers entropy for {falls} of {count} updates"
        if falls or not rises
        else f"the next step raises entropy for {rises} of {count} updates"
    )
    text = (
        f"At the training's learning rate entropy falls for {falls}, rises for {rises} "
        f"and may be unchanged for {count - falls - rises} of {count} updates."
    )
    cards: list[Card] = [
        count_card(falls, count, "updates lower entropy beyond noise"),
        count_card(rises, count, "updates raise entropy beyond noise"),
        estimate_card(worst, _NATS, f"the lowest change, of {most[0].name}"),
    ]
    off = [
        abs(c.error / c.observed)
        for _, c in pairs
        if c.observed and math.isfinite(c.error)
    ]
    if off:
        label = "largest error of the linear prediction, as a share of the change"
        cards.append(Card(whole_percent(max(off)), "", "", label))
    return Answer(title, text, tuple(cards))
