"""What a measurement of influence says first: which part of a step drains entropy."""

import math

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    whole_percent,
)
from entrometer.report.influence.updates import InfluenceRun, Rates, rates_of
from entrometer.report.kinds import Answer, Card
from entrometer.report.numbers import Interval
from entrometer.report.plot import Subject, grouped
from entrometer.report.signal import signal_cards
from entrometer.runs.tables.influence import top_share

_WAYS = {"falls": "drains", "rises": "adds"}
Parts = dict[tuple[str, str], Interval]
"""Change by objective and part of the update."""


def answer(run: InfluenceRun) -> Answer | None:
    """Return which part of a step moves entropy, and how few tokens do."""
    rates = rates_of([run])
    updates = {
        s: {(r.objective, r.part): Interval.of(r, "value") for r in rows}
        for s, rows in grouped(
            rates.scaled(run, row) for row in run.tables.balance
        ).items()
    }
    known = {s: p for s, p in updates.items() if _complete(p)}
    if not known:
        return None
    if len(known) > 1:
        return _several(list(known.values()))
    ((subject, parts),) = known.items()
    return _one(run, subject, parts, rates)


def _complete(parts: Parts) -> bool:
    batch, history = (parts.get(("entropy", p)) for p in ("batch", "history"))
    return bool(batch and batch.known and history and history.known)


def _one(run: InfluenceRun, s: Subject, parts: Parts, rates: Rates) -> Answer:
    units = rates.units
    batch, history = parts["entropy", "batch"], parts["entropy", "history"]
    cards = []
    if total := parts.get(("entropy", "total")):
        label = "entropy change of the step, to first order"
        cards.append(estimate_card(total, units["entropy"], label))
    cards.append(estimate_card(batch, units["entropy"], "of it by this batch's tokens"))
    signal = [r for r in run.tables.signal if (r.checkpoint, r.update) == s[1:3]]
    label = "of it by momentum of earlier batches"
    cards.append(estimate_card(history, units["entropy"], label))
    if reward := parts.get(("reward", "batch")):
        label = "expected reward, by this batch's tokens"
        cards.append(estimate_card(reward, units["reward"], label))
    cards += signal_cards(signal)[1:]
    decay = parts.get(("entropy", "decay"), Interval(0.0, 0.0, 0.0))
    title, text = _words(batch, history, decay)
    top = top_share(run.tables, *s[1:3])
    if math.isfinite(top):
        text += (
            f" Of its tokens with a gradient, the 1% with the largest influence have "
            f"{whole_percent(top)} of all |influence| on entropy."
        )
    return Answer(title, text, tuple(cards))


def _words(batch: Interval, history: Interval, decay: Interval) -> tuple[str, str]:
    if abs(history.value) > abs(batch.value):
        title = f"momentum, not this batch, {_verb(history)} most entropy"
    elif direction(batch) in _WAYS:
        title = f"this batch's tokens {_verb(batch, plural=True)} entropy"
    else:
        title = "this batch's effect on entropy is not seen beyond noise"
    sizes = [part.value for part in (batch, history, decay) if part.known]
    if batch.value * history.value >= 0:
        shares = [whole_percent(x / (sum(sizes) or 1.0)) for x in sizes]
        text = (
            f"To first order, the tokens of this batch make {shares[0]} of the step's "
            f"change of entropy, and momentum of earlier batches {shares[1]}."
        )
    else:
        text = (
            "To first order, the tokens of this batch and the momentum of earlier "
            "batches move entropy in opposite directions."
        )
    return title, text


def _verb(change: Interval, *, plural: bool = False) -> str:
    way = _WAYS.get(direction(change), "moves")
    return way.removesuffix("s") if plural else way


def _several(updates: list[Parts]) -> Answer:
    batches = [parts["entropy", "batch"] for parts in updates]
    drained = sum(b.high < 0 for b in batches)
    larger = sum(
        abs(parts["entropy", "history"].value) > abs(parts["entropy", "batch"].value)
        for parts in updates
    )
    count = len(updates)
    cards: tuple[Card, ...] = (
        count_card(drained, count, "batches lower entropy beyond noise"),
        count_card(larger, count, "updates in which momentum moves entropy more"),
    )
    text = (
        f"Of {count} updates, {drained} have a batch that lowers entropy beyond noise, "
        f"and {larger} have momentum that moves entropy more than their batch does."
    )
    title = f"{drained} of {count} batches drain entropy beyond noise"
    return Answer(title, text, cards)
