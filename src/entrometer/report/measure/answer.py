"""What a measurement says first: what the next step does to entropy."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    share_card,
    whole_percent,
)
from entrometer.report.kinds import Answer
from entrometer.report.measure.curves import Curve, MeasureRun, best_precision, curves
from entrometer.report.next_batches import advice_of, drain, next_cards
from entrometer.report.numbers import Interval, number
from entrometer.report.signal import signal_cards

_NATS = "nats per token"
_FAR = 500
"""Steps beyond which the change of one step says nothing."""
_VERBS = {"falls": "lowers", "rises": "raises"}


class Step(NamedTuple):
    """Entropy change of one update at the training's learning rate."""

    curve: Curve
    eta: float
    change: Interval
    """The observed change, or else the one by the slope."""
    linear: Interval
    error: float
    """Relative error of the slope's prediction; NaN if the change was not observed."""

    @property
    def observed(self) -> bool:
        """Whether the change was observed near the training's learning rate."""
        return self.change is not self.linear


def answer(run: MeasureRun) -> Answer | None:
    """Return the change at the training's learning rate; None if it is not known."""
    steps = steps_of(run)
    if not steps:
        return None
    if len(steps) > 1:
        return _several(steps)
    found, one = advice_of(run), _one(run, steps[0])
    if found is None:
        return one
    cards = (*next_cards(found), *one.cards)
    alone = one.text.replace("At the training's", "With this batch alone, at the", 1)
    return Answer(one.title, f"{drain(found)} {alone}", cards)


def steps_of(run: MeasureRun) -> list[Step]:
    """Return the change of each update at the training's learning rate, if known."""
    every = map(_step, best_precision(curves([run])))
    return [step for step in every if step and step.change.known]


def _step(curve: Curve) -> Step | None:
    if c := curve.at_training():
        change, linear = Interval.of(c, "observed"), Interval.of(c, "linear")
        error = abs(c.error / c.observed) if c.observed else math.nan
        return Step(curve, c.eta, change, linear, error)
    eta = curve.training_rate
    if curve.term is None or not eta > 0:
        return None
    # No learning rate of the sweep is near the training's: the slope stands for it.
    linear = Interval(*(eta * x for x in Interval.of(curve.term, "slope")))
    return Step(curve, eta, linear, linear, math.nan)


def _one(run: MeasureRun, step: Step) -> Answer:
    term, change = step.curve.term, step.change
    h = term.entropy if term else math.nan
    way = direction(change)
    part = f" by {whole_percent(abs(change.value) / h)}" if h > 0 else ""
    title = "no change of entropy is seen beyond noise"
    text = f"At the training's learning rate, {number(step.eta, 2)}, "
    if way in _VERBS:
        title = f"the next step {_VERBS[way]} entropy{part}"
        order = "" if step.observed else ", to first order"
        start = f", from {number(h)} nats per token" if h > 0 else ""
        text += f"one step {_VERBS[way]} entropy{part}{start}{order}."
        text += _halved(h, change)
    else:
        text += "the 95% interval of the change contains 0."
    how = "observed" if step.observed else "to first order"
    cards = [estimate_card(change, _NATS, f"entropy change of the next step, {how}")]
    if term:
        now = Interval.of(term, "entropy")
        cards.append(estimate_card(now, _NATS, "entropy now", signed=False))
    if step.observed:
        cards.append(estimate_card(step.linear, _NATS, "the change by its slope"))
    at = step.curve.subject[1:3]
    signal = [s for s in run.tables.signal if (s.checkpoint, s.update) == at]
    return Answer(title, text, (*cards, *signal_cards(signal, step.eta)))


def _halved(entropy: float, change: Interval) -> str:
    """Return after how many steps like this one half of the entropy is gone."""
    if not (entropy > 0 and change.high < 0):
        return ""
    steps = [entropy / 2 / -x for x in (change.value, change.low, change.high)]
    if not 1 <= steps[0] <= _FAR:
        return ""
    middle, first, last = (f"{x:,.0f}" for x in steps)
    return (
        f" If every step took as much, half of that would be gone after {middle} steps "
        f"(95%: {first} to {last}): arithmetic, not a forecast."
    )


def _several(steps: Sequence[Step]) -> Answer:
    ways = [direction(step.change) for step in steps]
    falls, rises, count = ways.count("falls"), ways.count("rises"), len(steps)
    lowest = min(steps, key=lambda step: step.change.value)
    title = (
        f"the next step lowers entropy for {falls} of {count} updates"
        if falls or not rises
        else f"the next step raises entropy for {rises} of {count} updates"
    )
    text = (
        f"At the training's learning rate entropy falls for {falls}, rises for {rises} "
        f"and may be unchanged for {count - falls - rises} of {count} updates"
        f"{'' if all(s.observed for s in steps) else ', in part to first order'}."
    )
    cards = [
        count_card(falls, count, "updates lower entropy beyond noise"),
        count_card(rises, count, "updates raise entropy beyond noise"),
        estimate_card(lowest.change, _NATS, f"lowest change, by {lowest.curve.name}"),
    ]
    errors = [step.error for step in steps if math.isfinite(step.error)]
    if errors:
        label = "largest error of the linear prediction, as a share of the change"
        cards.append(share_card(max(errors), label))
    return Answer(title, text, tuple(cards))
