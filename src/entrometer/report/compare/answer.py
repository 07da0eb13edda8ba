"""What a comparison says first: which remedy keeps entropy, and at what cost."""

import math
from collections.abc import Sequence
from dataclasses import replace

from entrometer.report.cards import (
    count_card,
    direction,
    estimate_card,
    whole_percent,
)
from entrometer.report.compare.points import UNITS, CompareRun, Option, Point, points
from entrometer.report.kinds import Answer, Card, Snippet
from entrometer.report.next_batches import (
    advice_of,
    confidence,
    drain,
    expected,
    next_cards,
    remedy,
)
from entrometer.report.numbers import Interval, rate
from entrometer.runs.tables.compare import AS_TRAINED, Pair, chosen_remedy
from entrometer.runs.tables.next_batches import Advice, advice

_NAMED = 5
"""From this many minibatches on, the text does not name each one's remedy."""
_NO_COST = ", at no visible cost in reward"
_NATS, _REWARD = UNITS["entropy"], UNITS["reward"]


def answer(run: CompareRun) -> Answer | None:
    """Return the remedy that the choosing half of the prompts selects, and its gain."""
    every = [p for p in points([run]) if _finite(p.reference)]
    if not every:
        return None
    silent = [p for p in every if _without_signal(run, p)]
    if silent == every:
        return Answer(
            "no verdict: the batch has no signal",
            "Every prompt group has advantages of 0, so plain and every remedy "
            "that reweights its tokens make the same step.",
        )
    compared = [p for p in every if p not in silent]
    if found := advice_of(run):
        return _ahead(found)
    return _one(run, compared[0]) if len(compared) == 1 else _several(compared)


def _ahead(found: Advice) -> Answer:
    """Return the answer over the training's next batches."""
    tested = len(found.tested)
    passing = sum(row.passes and row.expected > 0 for row in found.tested)
    label = "remedies keep more entropy than plain over the next batches"
    cards = (*next_cards(found), count_card(passing, tested, label))
    if not found.plain.known:
        return Answer("no verdict: the batches have no signal", drain(found))
    title = "no remedy is distinguishable from plain over the next batches"
    if found.best is not None:
        title = f"{found.best.loss} keeps entropy over the next batches"
        bought = found.one_step(found.best.loss, "reward")
        # Of the next step alone, and among the gains of all losses, as the text says.
        if bought is not None and bought.known:
            price = _cost(expected(bought)) if bought.passes else _NO_COST
            title += f"{price} in the next step"
    return Answer(title, f"{drain(found)} {remedy(found)} {confidence(found)}", cards)


def settings_to_paste(
    runs: Sequence[CompareRun], *, sure: bool = False
) -> list[Snippet] | None:
    """Return how to use the advised remedies: entrometer, TRL and verl.

    `sure` leaves out those that do not keep more entropy beyond noise, and the command
    of entrometer, for the page of a user with a training of their own.
    """
    remedies = {r.settings: r for run in runs for r in run.tables.remedies}
    chosen = [name for run in runs for name in advised(run, sure=sure)]
    snippets = []
    for name in dict.fromkeys(chosen):
        row = remedies.get(name)
        if row is None:
            continue
        command = f'entrometer train --intervention "{row.settings}"'
        lines = [
            ("entrometer", "" if sure else command),
            ("TRL", f"GRPOConfig(..., {row.trl})" if row.trl else ""),
            ("verl", row.verl.replace(" ", "\n")),
        ]
        made = [Snippet(f"{name} in {where}", code) for where, code in lines if code]
        if row.differs and made:
            last = made.pop()
            made.append(replace(last, title=f"{last.title}; note: {row.differs}"))
        snippets += made
    return snippets or None


def advised(run: CompareRun, *, sure: bool) -> list[str]:
    """Return the remedies that a run advises; over the next batches if it has them."""
    checkpoints = dict.fromkeys(row.checkpoint for row in run.tables.expected)
    if checkpoints:
        found = (advice(run.tables.expected, name) for name in checkpoints)
        return [a.best.loss for a in found if a and a.best]
    options = [selected(p) for p in points([run]) if not _without_signal(run, p)]
    return [o.name for o in options if o and (not sure or o.gain("entropy").low > 0)]


def selected(point: Point) -> Option | None:
    """Return the remedy that the half of the prompts that chooses selects."""
    if not _finite(point.reference):
        return None
    others = {_pair(o): o for o in _remedies(point)}
    best = chosen_remedy(_pair(point.reference), list(others))
    return others[best] if best else None


def _remedies(point: Point) -> list[Option]:
    # The frontier's tokens are chosen by a measurement, not by a setting.
    return [o for o in point.remedies if _finite(o) and not o.entropy.chosen]


def _pair(option: Option) -> Pair:
    return Pair(option.rows["entropy"], option.rows["reward"])


def _finite(option: Option) -> bool:
    return _pair(option).finite


def _without_signal(run: CompareRun, point: Point) -> bool:
    at = point.subject[1:]
    rows = [s for s in run.tables.signal if s.groups_with_signal == 0]
    return any((s.checkpoint, s.update, s.minibatch) == at for s in rows)


def reference(runs: Sequence[CompareRun]) -> str | None:
    """Return what plain is, the loss that every remedy changes; None if not known."""
    names = {o.reference for run in runs for o in run.tables.outcomes}
    losses = {AS_TRAINED: "the loss that the training recorded", "dr-grpo": "Dr-GRPO"}
    told = " or ".join(losses.get(name, name) for name in sorted(names))
    return f"Plain is the loss without a remedy, here {told}." if told else None


def verdict(run: CompareRun, point: Point, *, with_share: bool = True) -> str:
    """Return whether the selected remedy keeps entropy, or what would tell.

    `with_share` adds its gain as a share of what plain drains.
    """
    best, change = selected(point), point.reference.change("entropy")
    if best is None:
        return "No remedy is predicted to keep more entropy."
    kept = best.gain("entropy")
    if kept.low > 0:
        bought = best.gain("reward")
        sign = "+" * (bought.value > 0)
        reward = f"; reward gains {sign}{bought}" if bought.known else ""
        return (
            f"{best.name}: one step keeps {kept} nats per token more than the loss "
            f"without it{_ratio(kept, change) * with_share}{reward}. It was chosen "
            f"among {len(_remedies(point))} on one half of the prompts, and measured "
            "on the other."
        )
    return (
        f"No remedy is distinguishable from the loss as it is. {_more(run, best, kept)}"
    )


def _more(run: CompareRun, best: Option, kept: Interval) -> str:
    """Return how many prompts would tell the gain of a remedy from 0."""
    prompts = run.config.get("prompts")
    if run.config.get("quick"):
        return "Leave out --quick to use more prompts."
    if kept.value <= 0:
        return (
            f"{best.name}, chosen on one half of the prompts, gains nothing on the "
            "other half."
        )
    # The width of an interval shrinks with the root of the number of prompts.
    times = ((kept.high - kept.low) / 2 / kept.value) ** 2
    if not isinstance(prompts, int) or not math.isfinite(times):
        return f"{best.name} is chosen on one half of the prompts; use more --prompts."
    needed = math.ceil(prompts * times)
    # Rounded up to one digit: rounded down, it could be less than there are.
    unit = 10 ** (len(str(needed)) - 1)
    return (
        f"{best.name} is chosen on one half of the prompts; if its gain on the other "
        f"half is real, about {-(-needed // unit) * unit:,} prompts in place of "
        f"{prompts:,} would be enough to distinguish it from 0 (--prompts)."
    )


def _one(run: CompareRun, point: Point) -> Answer:
    plain, others = point.reference, _remedies(point)
    change = plain.change("entropy")
    saving = [o for o in others if o.gain("entropy").low > 0]
    best = selected(point)
    cards = [estimate_card(change, _NATS, "entropy change of a plain step")]
    if plain.scored:
        reward = plain.change("reward")
        cards.append(estimate_card(reward, _REWARD, "reward change of that step"))
    keep = count_card(
        len(saving), len(others), "remedies keep more entropy than plain beyond noise"
    )
    start = f"At {rate(plain.entropy.eta)} plain {_does(change)} entropy. "
    text = start + verdict(run, point)
    if best is None:
        return Answer("no remedy keeps entropy", text, (*cards, keep))
    kept, bought = best.gain("entropy"), best.gain("reward")
    sure = kept.low > 0
    title = (
        f"{best.name} keeps entropy{_cost(bought)}"
        if sure
        else "no chosen remedy keeps entropy beyond noise"
    )
    label = f"kept by {best.name}, compared with plain"
    cards.append(estimate_card(kept, _NATS, label))
    if plain.scored:
        label = f"reward of {best.name}, compared with plain"
        cards.append(estimate_card(bought, _REWARD, label))
    return Answer(title, text, (*cards, keep))


def _does(change: Interval) -> str:
    way = direction(change)
    return {"falls": "lowers", "rises": "raises"}.get(way, "may not change")


def _ratio(kept: Interval, change: Interval) -> str:
    """Return the gain as a share of what plain drains; empty if plain may not drain."""
    if change.high >= 0:
        return ""
    return f", by {whole_percent(-kept.value / change.value)} of what plain drains"


def _cost(bought: Interval) -> str:
    if not bought.known:
        return ""
    if bought.high < 0:
        return ", at a cost in reward"
    return ", with more reward" if bought.low > 0 else _NO_COST


def _several(every: Sequence[Point]) -> Answer:
    cases = [(p, o) for p in every for o in _remedies(p)]
    saving = [c for c in cases if c[1].gain("entropy").low > 0]
    costly = [c for c in saving if c[1].gain("reward").high < 0]
    chosen = [(p.name, o) for p in every if (o := selected(p))]
    sure = [(name, o) for name, o in chosen if o.gain("entropy").low > 0]
    falls = sum(p.reference.change("entropy").high < 0 for p in every)
    gains = ", ".join(
        f"{o.name} by {o.gain('entropy')} nats per token at {name}" for name, o in sure
    )
    cards: tuple[Card, ...] = (
        count_card(falls, len(every), "minibatches on which plain lowers entropy"),
        count_card(len(saving), len(cases), "cases keep more entropy beyond noise"),
        count_card(len(costly), len(saving), "of those cost reward beyond noise"),
    )
    title = (
        f"the chosen remedy keeps entropy at {len(sure)} of {len(every)} minibatches"
    )
    text = (
        f"Plain, the loss without a remedy, lowers entropy beyond noise at {falls} of "
        f"{len(every)} minibatches. The remedy that one half of the prompts chooses "
        f"keeps more entropy on the other half at {len(sure)}"
        f"{f': {gains}' if len(sure) in range(1, _NAMED) else ''}."
    )
    return Answer(title, text, cards)
