"""What a diagnosis says first: what drains entropy, and what would help."""

import math
from collections.abc import Sequence

from entrometer.report.cards import direction, estimate_card, whole_percent
from entrometer.report.compare.answer import selected, settings_to_paste, verdict
from entrometer.report.compare.points import points
from entrometer.report.diagnose.heading import DiagnoseRun
from entrometer.report.kinds import Answer, Card, Snippet
from entrometer.report.measure.answer import answer as measured
from entrometer.report.measure.answer import steps_of
from entrometer.report.next_batches import (
    advice_of,
    confidence,
    expected,
    next_cards,
    remedy,
)
from entrometer.report.numbers import Interval, number
from entrometer.report.plot import Subject
from entrometer.report.signal import momentum_share, signal_cards
from entrometer.runs.tables.influence import Balance, Group, top_share
from entrometer.runs.tables.next_batches import Advice
from entrometer.runs.tables.signal import UpdateSignal

_MOSTLY = 0.5
"""Share of a change from which the title names its cause."""


def answer(run: DiagnoseRun) -> Answer | None:
    """Return how entropy changes and why, which tokens do it, and what would help."""
    change, steps = measured(run), steps_of(run)
    # Several updates: the numbers of each are in the sections below.
    if change is None or len(steps) != 1:
        return change
    at = steps[0].curve.subject
    signal = [s for s in run.tables.signal if (s.checkpoint, s.update) == at[1:3]]
    title = change.title
    seen = direction(steps[0].change) in ("falls", "rises")
    if seen and any(momentum_share(s) > _MOSTLY for s in signal):
        title += ", mostly by momentum"
    lines = [
        ("What happens", change.text),
        ("Why", _cause(signal)),
        ("What would help", _remedy(run, signal)),
        ("How sure", _confidence(run)),
    ]
    cards = [*change.cards[:1], *signal_cards(signal), *_reward(run, at)]
    if found := advice_of(run):
        lines[2] = ("What would help", _advice(run, found))
        lines[3] = ("How sure", f"{confidence(found)} {_MOMENT}")
        # The answer of `measure` has these before its own.
        cards = [*next_cards(found), *change.cards[len(next_cards(found)) :][:1]]
        cards += [*signal_cards(signal), *_reward(run, at)]
        if found.plain.known:
            title = _title(found, title)
    known = tuple((question, text) for question, text in lines if text)
    return Answer(title, change.text, tuple(cards), known)


def _title(found: Advice, title: str) -> str:
    way = direction(expected(found.plain))
    if way in ("falls", "rises"):
        return f"entropy {way} over the next batches"
    return f"{title}; over the next batches it may not change"


def _advice(run: DiagnoseRun, found: Advice) -> str:
    remedies = {r.settings: r.trl for r in run.tables.remedies}
    settings = remedies.get(found.best.loss) if found.best else None
    return remedy(found) + (f" In TRL: {settings}." if settings else "")


_MOMENT = "Rates over several steps are at the present parameters."


def lines_to_paste(runs: Sequence[DiagnoseRun]) -> list[Snippet] | None:
    """Return settings of TRL and verl for remedies that keep entropy beyond noise."""
    return settings_to_paste(runs, sure=True)


def how_sure(runs: Sequence[DiagnoseRun]) -> str:
    """Return what the answer rests on, and what it does not tell."""
    rows = [c for run in runs for c in run.tables.changes]
    prompts = max((c.prompts for c in rows), default=0)
    quick = any(run.config.get("quick") for run in runs)
    own = any(run.config.get("prompts_file") for run in runs)
    which = "your prompts" if own else "prompts that the update does not contain"
    ahead = any(run.tables.expected for run in runs)
    others = (
        "what is said of the next batches has intervals over batches as well."
        if ahead
        else "which may have another effect and favour another remedy."
    )
    text = (
        f"Entropy is measured on {prompts} responses to {which}. Intervals of one "
        "update batch are over these prompts: they do not hold for the next batches"
        f"{'; ' if ahead else ', '}{others}"
    )
    if quick:
        text += (
            " With --quick, remedies are predicted and not tried, and neither the "
            "linear range nor the influence of tokens is checked."
        )
    return text


def _cause(signal: Sequence[UpdateSignal]) -> str:
    if len(signal) != 1:
        return ""
    (row,) = signal
    rest = row.predicted - row.momentum
    text = (
        f"To first order the step changes entropy by {number(row.predicted, 2)} nats "
        "per token. Of that, AdamW's momentum, its average of earlier gradients, makes "
        f"{number(row.momentum, 2)}, and this batch {number(rest, 2)}"
    )
    return text + (
        "." if row.momentum * rest >= 0 else ": they work against one another."
    )


def _confidence(run: DiagnoseRun) -> str:
    rows = run.tables.changes
    prompts = max((c.prompts for c in rows), default=0)
    quick = " Quick: the step with the remedy was estimated, not taken." * bool(
        run.config.get("quick")
    )
    return (
        f"Intervals are 95%, over {prompts} prompts, for this one update batch; the "
        f"next batch may differ.{quick}"
    )


def tokens_in_words(runs: Sequence[DiagnoseRun]) -> str | None:
    """Return how few tokens move entropy, and of which kind; None for several runs."""
    steps = [(run, step) for run in runs for step in steps_of(run)]
    if len(steps) != 1:
        return None
    run, at = steps[0][0], steps[0][1].curve.subject
    share = top_share(run.tables, *at[1:3])
    if not math.isfinite(share):
        return None
    kinds = [
        g
        for g in run.tables.groups
        if (g.checkpoint, g.update) == at[1:3]
        and (g.by, g.objective) == ("kind", "entropy")
        and g.value_high < 0
    ]
    text = (
        "What momentum does is not of these tokens. Of what the batch itself does, 1% "
        f"of its tokens with a gradient have {whole_percent(share)}, counting both "
        "signs"
    )
    if kinds:
        most = min(kinds, key=lambda g: g.value)
        text += f"; of all kinds of tokens, {_kind(most)} take most entropy"
    return text + "."


def _kind(group: Group) -> str:
    return f"“{group.name}” ({group.tokens} of them)"


def _remedy(run: DiagnoseRun, signal: Sequence[UpdateSignal]) -> str:
    if any(s.groups_with_signal == 0 for s in signal):
        return "The batch has no signal, so there is no verdict on remedies."
    every = points([run])
    if len(every) != 1:
        return ""
    # The share is of the change on half of the prompts; the answer begins with that on
    # all of them.
    text, best = verdict(run, every[0], with_share=False), selected(every[0])
    remedies = {r.settings: r.trl for r in run.tables.remedies}
    if best and best.gain("entropy").low > 0 and remedies.get(best.name):
        text += f" In TRL: {remedies[best.name]}."
    return text


def _reward(run: DiagnoseRun, at: Subject) -> list[Card]:
    rows: list[Balance] = [
        b
        for b in run.tables.balance
        if (b.checkpoint, b.update) == at[1:3]
        and (b.objective, b.part) == ("reward", "total")
        and math.isfinite(b.value)
    ]
    return [
        estimate_card(
            Interval(*(b.learning_rate * x for x in Interval.of(b, "value"))),
            "reward per response",
            "change of expected reward by the step, to first order",
        )
        for b in rows
    ]
