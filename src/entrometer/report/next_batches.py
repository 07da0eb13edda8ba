"""The training's next batches on a report page: verdict, gains, and each batch."""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from matplotlib.figure import Figure

from entrometer.report.cards import direction, estimate_card
from entrometer.report.cells import interval, number, percent, text
from entrometer.report.interval_rows import interval_panels
from entrometer.report.kinds import Card, FinishedRun
from entrometer.report.numbers import Interval
from entrometer.report.numbers import interval as ends
from entrometer.report.plot import Plot, Subject, by_subject
from entrometer.report.table import Table
from entrometer.runs.tables.next_batches import (
    KEPT_UP,
    ONE_STEP,
    Advice,
    BatchChange,
    ExpectedChange,
    advice,
)

_MOST = 4
"""Checkpoints that a figure has room for."""
NATS = "nats per token"


@runtime_checkable
class _Tables(Protocol):
    @property
    def expected(self) -> list[ExpectedChange]: ...

    @property
    def batches(self) -> list[BatchChange]: ...


Run = FinishedRun[_Tables]


def advice_of(run: Run) -> Advice | None:
    """Return what the next batches say, if the run is about one checkpoint."""
    names = list(dict.fromkeys(row.checkpoint for row in run.tables.expected))
    return advice(run.tables.expected, names[0]) if len(names) == 1 else None


def expected(row: ExpectedChange) -> Interval:
    """Return an expected change with its interval."""
    return Interval.of(row, "expected")


def drain(found: Advice) -> str:
    """Return what a step does on average over the next batches."""
    plain = found.plain
    if not plain.known:
        return (
            f"Over {plain.batches} update batches there is no verdict on the next "
            "ones: no batch differs from another."
        )
    way = {"falls": "lowers", "rises": "raises"}.get(direction(expected(plain)))
    said = f"{way} entropy by" if way else "changes entropy by no more than noise:"
    value = expected(plain)
    if way == "lowers":
        value = Interval(-value.value, -value.high, -value.low)
    return (
        f"Over the training's next batches a step {said} {value} {NATS} on average; "
        f"the next one's change is within {ends(plain.next_low, plain.next_high)} with "
        f"95%.{_bought(found)}"
    )


def _bought(found: Advice) -> str:
    reward = found.one_step(found.plain.loss, "reward")
    if reward is None or math.isnan(reward.per_nat):
        return ""
    return (
        f" Per nat of it, expected reward changes by {Interval.of(reward, 'per_nat')}."
    )


def remedy(found: Advice) -> str:
    """Return which remedy keeps more entropy over the next batches, or what would."""
    best, closest = found.best, found.closest
    if best is not None:
        bought = found.one_step(best.loss, "reward")
        cost = ""
        if bought is not None and bought.known:
            seen = "" if bought.passes else ", not distinguishable from 0"
            cost = f"; the next step's gain in reward is {expected(bought)}{seen}"
        return (
            f"{best.loss}, kept up for {KEPT_UP} steps, keeps {expected(best)} {NATS}, "
            f"per step, more than the loss without it{cost}. {_chosen(found)}"
        )
    start = "No remedy is distinguishable from the loss as it is over the next batches"
    if closest is None:
        return f"{start}."
    times = max(1.0, 1.2 * closest.times_the_data)
    tell = (
        f"; it takes about {times:.2g} times as many batches and prompts to "
        "distinguish it from 0"
        if times < 1e4
        else ""
    )
    return f"{start}. The closest is {closest.loss}, at {expected(closest)}{tell}."


def _chosen(found: Advice) -> str:
    among = f"of {len(found.tested)} gains, at a false discovery rate of 5%"
    luck = "chosen and measured on the same batches: somewhat too large"
    if found.dearer is None:
        return f"It is the largest {among} ({luck})."
    return (
        f"It is the largest {among}, that costs at most a tenth of what plain gains in "
        f"reward ({luck}); {found.dearer.loss} keeps {expected(found.dearer)} and "
        "costs more."
    )


def confidence(found: Advice) -> str:
    """Return what the verdict rests on."""
    plain = found.plain
    return (
        f"Intervals are 95%, over {plain.batches} update batches, "
        f"{plain.batches_with_signal} of them with signal, and {plain.prompts} prompts."
    )


def next_cards(found: Advice) -> list[Card]:
    """Return cards of the expected change, of the next batch, and of the best gain."""
    plain = found.plain
    if not plain.known:
        return []
    cards = [
        estimate_card(
            expected(plain), NATS, "expected change of entropy by a step, next batches"
        )
    ]
    if found.best is not None:
        label = f"kept per step by {found.best.loss}, over {KEPT_UP} steps"
        cards.append(estimate_card(expected(found.best), NATS, label))
    return cards


def next_gains(runs: Sequence[Run]) -> Plot | None:
    """Return the plot of expected gains, of one step and of a loss that is kept up."""
    rows = by_subject(_gains(runs), _MOST)
    if rows is None:
        return None
    passing = [r for r in rows.every if r.passes and r.horizon == KEPT_UP]
    tested = sum(r.horizon == KEPT_UP for r in rows.every)
    return Plot(
        "next-gains",
        "Gain over plain, expected over the next batches",
        "A row for each intervention: the entropy that it keeps beyond plain, in the "
        f"next step and per step if it is kept up for {KEPT_UP} steps, with 95% "
        "intervals over update batches and evaluation prompts.",
        caption=f"{len(passing)} of {tested} gains that are kept up for {KEPT_UP} "
        "steps are distinguishable from 0 at a false discovery rate of 5%. A gain of "
        "one step is small, because momentum of the loss before makes most of it."
        + rows.omitted,
        table=rows.table(
            "Entropy kept beyond plain, in nats per token, per step, with 95% "
            "intervals over batches and prompts; `next batch` is the interval for its "
            "own gain",
            {
                "intervention": text("loss"),
                "steps kept up": text("horizon"),
                "gain": interval("expected"),
                "p": number("p_value", 2),
                "passes": lambda r: "yes" if r.passes else "no",
                "of batches": percent("batch_share"),
            },
            2,
        ),
        draw=lambda: _draw(rows.drawn),
    )


def _gains(runs: Sequence[Run]) -> list[tuple[Subject, ExpectedChange]]:
    return [
        (Subject(run.name, row.checkpoint, "", ""), row)
        for run in runs
        for row in run.tables.expected
        if row.against
        and row.known
        and row.objective == "entropy"
        and row.horizon in (ONE_STEP, KEPT_UP)
    ]


def _draw(rows: dict[str, list[ExpectedChange]]) -> Figure:
    every = [row for subset in rows.values() for row in subset]
    kept = [row for row in every if row.horizon == KEPT_UP]
    names = list(
        dict.fromkeys(r.loss for r in sorted(kept, key=lambda row: -row.expected))
    )
    over = {ONE_STEP: "the next step", KEPT_UP: f"{KEPT_UP} steps, per step"}
    panels = {
        f"gain over {steps}, {NATS}": {
            name: {r.loss: expected(r) for r in subset if r.horizon == horizon}
            for name, subset in rows.items()
        }
        for horizon, steps in over.items()
    }
    return interval_panels(names, panels)


def batch_table(runs: Sequence[Run]) -> Table | None:
    """Return the change by plain's step of each batch; None without any."""
    rows = by_subject(
        [
            (Subject(run.name, row.checkpoint, "", ""), row)
            for run in runs
            for row in run.tables.batches
            if row.objective == "entropy" and row.loss == run.tables.batches[0].loss
        ],
        _MOST,
    )
    if rows is None:
        return None
    return rows.table(
        "Change of entropy by the step of each update batch, in nats per token and to "
        "first order; its interval is over evaluation prompts alone. `effective` is "
        "the share of responses left after reweighting a later update to this policy",
        {
            "batch": text("batch"),
            "with signal": lambda r: f"{r.groups_with_signal} of {r.groups}",
            "effective": percent("effective_share"),
            "change": interval("change"),
            "momentum": number("momentum"),
        },
        2,
    )
