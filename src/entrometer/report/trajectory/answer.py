"""What a trajectory says first: how much of the fall of entropy is explained."""

import math

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    whole_percent,
)
from entrometer.report.compare.points import UNITS
from entrometer.report.kinds import Answer, Card, FinishedRun
from entrometer.report.numbers import Interval
from entrometer.runs.tables.trajectory import Explained, Summed, TrajectoryTables

TrajectoryRun = FinishedRun[TrajectoryTables]

_WAYS = {"falls": "fell", "rises": "rose"}
NATS = UNITS["entropy"]


def answer(run: TrajectoryRun) -> Answer | None:
    """Return how far entropy fell, and what the updates' predictions explain of it."""
    rows = {r.prediction: r for r in run.tables.total if r.objective == "entropy"}
    if not rows:
        return None
    updates, weights = rows["updates"], rows["weights"]
    measured = Interval.of(updates, "measured")
    cards = [
        estimate_card(measured, NATS, "measured change of entropy"),
        *_share_card(weights, "predicted along the weights' differences"),
        *_share_card(updates, "predicted by the recorded updates"),
    ]
    way = _WAYS.get(direction(measured), "changed")
    fell = f"{way} by {_size(measured)}"
    text = (
        f"Entropy {fell} {NATS} from {updates.first} to {updates.last}; linear "
        f"predictions along the differences of the weights sum to "
        f"{Interval.of(weights, 'predicted')}, those by {updates.updates} recorded "
        f"updates to {Interval.of(updates, 'predicted')}."
    )
    parts = {r.name: r for r in _sums(run, "part")}
    if "history" in parts:
        momentum = Interval.of(parts["history"], "value")
        cards.append(estimate_card(momentum, NATS, "predicted of momentum alone"))
    kinds = sorted(_sums(run, "kind"), key=lambda row: row.value)
    if kinds and kinds[0].value < 0:
        drained = Interval.of(kinds[0], "value")
        text += (
            f" Of the batches' tokens, the kind “{kinds[0].name}” drained most: "
            f"{drained}."
        )
    for row in run.tables.concentration:
        if row.half:
            label = "prompts account for half of what the batches drained"
            cards.append(count_card(row.half, row.prompts, label))
    share = whole_percent(weights.share)
    title = (
        f"first-order predictions explain {share} of the change of entropy"
        if math.isfinite(weights.share)
        else "no change of entropy is distinguishable from 0"
    )
    return Answer(title, text, tuple(cards))


def _size(change: Interval) -> Interval:
    """Return the size of a change that is named as a fall."""
    if change.high < 0:
        return Interval(-change.value, -change.high, -change.low)
    return change


def _share_card(row: Explained, label: str) -> list[Card]:
    if not math.isfinite(row.share):
        return []
    ends = ""
    if math.isfinite(row.share_low):
        ends = f"[{whole_percent(row.share_low)}, {whole_percent(row.share_high)}]"
    return [Card(whole_percent(row.share), "of the change", ends, label)]


def _sums(run: TrajectoryRun, by: str) -> list[Summed]:
    rows = run.tables.sums
    return [row for row in rows if (row.objective, row.by) == ("entropy", by)]
