"""Advice: which setting keeps how much entropy, at what cost, and how sure that is."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.later_words import later_sentences
from entrometer.experiments.next_batches.summary import (
    next_batch_sentences,
    next_batch_warnings,
)
from entrometer.experiments.result_fields import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.compare import (
    AS_TRAINED,
    CompareTables,
    Outcome,
    Pair,
    Remedy,
    chosen_remedy,
)
from entrometer.runs.tables.next_batches import Advice, advice
from entrometer.tasks.own import OWN
from entrometer.text import interval, interval_of, precision_text

_NO_TRL = "no setting, but a trainer with `entrometer.training.Intervened` takes it"
_NONLINEAR = 0.3
"""Relative error above which the linear prediction is not trusted."""


def summarize(config: CompareConfig, tables: CompareTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a comparison, as plain text."""
    return {
        "title": "Interventions against entropy collapse, compared",
        "sentences": [
            *without_signal(tables.signal),
            _overview(config, tables),
            *advised(tables),
            *findings(tables),
            *later_sentences(tables.later),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *warnings(tables),
            *next_batch_warnings(
                tables.expected, tables.batches, names(tables), config.batches
            ),
        ],
    }


def advised(tables: CompareTables) -> list[str]:
    """Return what the next batches say, and how to use what they advise."""
    remedies = {r.settings: r for r in tables.remedies}
    names = dict.fromkeys(row.checkpoint for row in tables.expected)
    found = [a for name in names if (a := advice(tables.expected, name))]
    return [
        *next_batch_sentences(tables.expected),
        *(
            f"{a.plain.checkpoint}: {text}"
            for a in found
            for text in _how_to_use_advised(a, remedies)
        ),
    ]


def _how_to_use_advised(found: Advice, remedies: dict[str, Remedy]) -> Iterator[str]:
    """Yield how to use the advised remedy, and one that TRL has if it has not that."""
    known = [row for row in found.ranked() if row.loss in remedies]
    if not known:
        return
    yield _how_to_use(remedies[known[0].loss])
    in_trl = [row for row in known if remedies[row.loss].trl]
    if in_trl and in_trl[0] is not known[0]:
        best = in_trl[0]
        kept = interval_of(best, "expected")
        yield (
            f"of the distinguishable gains with a setting in TRL, the first is "
            f"{best.loss}, {kept} nats per token, per step: {remedies[best.loss].trl}."
        )


def findings(tables: CompareTables) -> list[str]:
    """Return what plain changes at each point; which remedy to use, if no batches tell.

    One batch does not choose a remedy for the next ones, where those were measured.
    """
    remedies = {r.settings: r for r in tables.remedies}
    silent = points_without_signal(tables)
    judged = {row.checkpoint for row in tables.expected}
    return [
        f"{name}: {text}"
        for name, pairs in points_of(tables.outcomes).items()
        for text in (
            [_NO_SIGNAL]
            if name in silent
            else islice(
                _advice(pairs, remedies),
                2 if pairs[0].entropy.checkpoint in judged else None,
            )
        )
    ]


def warnings(tables: CompareTables) -> list[str]:
    """Return the warnings of all points, besides those on their signal."""
    silent = points_without_signal(tables)
    return [
        f"{name}: {text}"
        for name, pairs in points_of(tables.outcomes).items()
        for text in (() if name in silent else _warnings(pairs))
    ]


def names(tables: CompareTables) -> list[str]:
    """Return the checkpoints whose whole update was compared."""
    whole = (o.checkpoint for o in tables.outcomes if o.minibatch == "1/1")
    return list(dict.fromkeys(whole))


def points_without_signal(tables: CompareTables) -> set[str]:
    """Return the names of points at which every prompt group has advantages of 0."""
    rows = [s for s in tables.signal if s.groups_with_signal == 0]
    return {f"{s.checkpoint}, {s.update}, {s.minibatch}" for s in rows}


def points_of(outcomes: Sequence[Outcome]) -> dict[str, list[Pair]]:
    """Return the tried interventions' outcomes, by point; plain is the first."""
    points: dict[str, dict[str, dict[str, Outcome]]] = {}
    for o in outcomes:
        if o.tried:
            point = points.setdefault(f"{o.checkpoint}, {o.update}, {o.minibatch}", {})
            point.setdefault(o.settings, {})[o.objective] = o
    return {
        name: [Pair(both["entropy"], both["reward"]) for both in point.values()]
        for name, point in points.items()
    }


def _overview(config: CompareConfig, tables: CompareTables) -> str:
    names = dict.fromkeys(o.name for o in tables.outcomes)
    references = dict.fromkeys(_LOSSES[o.reference] for o in tables.outcomes)
    of_task = "" if config.task == OWN else f" on {config.task}"
    return (
        f"{len(names)} losses{of_task}, each compared with plain, which is "
        f"{' or '.join(references)}: one step of AdamW, predicted by influence and, at "
        "one strength per loss (none "
        f"with --no-truth), taken; {config.prompts} prompts in {config.folds} folds: "
        "half choose tokens and settings, the other half measure the effect; "
        f"{precision_text(config.precision)}."
    )


_LOSSES = {"dr-grpo": "Dr-GRPO", AS_TRAINED: "the loss that the training recorded"}

_NO_SIGNAL = (
    "no verdict. The batch has no signal, so plain and every remedy that "
    "reweights its tokens make the same step, and a remedy that adds an entropy term "
    "has nothing to be compared with."
)


def _advice(pairs: list[Pair], remedies: dict[str, Remedy]) -> Iterator[str]:
    plain = pairs[0]
    eta, share = plain.entropy.eta, plain.entropy.share
    if not plain.finite:
        yield (
            "no verdict. After plain's step at the learning rate "
            f"{eta:.3g}, entropy or reward is not a finite number; give a smaller "
            "--eta."
        )
        return
    entropy, reward = (interval(*o.told_change) for o in plain)
    yield (
        f"plain changes entropy by {entropy} nats per token"
        + (f" and expected reward by {reward}" if plain.scored else "")
        + f" at the learning rate {eta:.3g}."
    )
    # The frontier's tokens are chosen by a measurement, not by a setting.
    others = [p for p in pairs[1:] if p.finite and p.entropy.name != "frontier"]
    # Significant: the 95% interval excludes 0.
    saving = [p for p in others if p.entropy.told_gain.low > 0]
    costly = sum(p.reward.told_gain.high < 0 for p in saving)
    yield (
        f"{len(saving)} of {len(others)} remedies keep significantly more entropy than "
        "plain"
        + (
            f", {costly} of them at a significant cost in reward"
            if plain.scored
            else ""
        )
        + " (95% intervals)."
    )
    best = chosen_remedy(plain, others)
    if best is None:
        yield "no remedy is predicted to keep more entropy than plain."
        return
    settings = best.entropy.settings
    kept, bought = best.entropy.told_gain, best.reward.told_gain
    sure = "" if kept.low > 0 else " (not significant)"
    yield (
        f"the half of the prompts that chooses selects {settings}; on the other half "
        f"it keeps {interval(*kept)} nats per token more than plain{sure}"
        + (
            f", and reward differs by {interval(*bought)}, so a cost above "
            f"{max(0.0, -bought.low):.2g} is excluded."
            if plain.scored
            else "."
        )
    )
    yield (
        f"this minibatch makes {share:.0%} of the step and momentum the rest. If "
        f"{settings} stays on, its gain grows to at most {1 / share:.3g} times as much "
        f"per step, provided that training does not react: {kept.value / share:+.2g} "
        f"nats per token; plain's change is {plain.entropy.told_change.value:+.2g}."
    )
    yield _how_to_use(remedies[settings])


def _how_to_use(remedy: Remedy) -> str:
    differs = f" There {remedy.differs}." if remedy.differs else ""
    return (
        f"to use it, in TRL: {remedy.trl or _NO_TRL}; in verl: "
        f"{remedy.verl or 'no setting'}; here: entrometer train --intervention "
        f'"{remedy.settings}".{differs}'
    )


def _warnings(pairs: list[Pair]) -> Iterator[str]:
    plain = pairs[0].entropy
    overflowed = [p.entropy.settings for p in pairs if not p.finite]
    if not pairs[0].scored:
        yield (
            "nothing is known about reward, so not what a remedy costs: no reward "
            "function is given, and other recorded updates have no responses to these "
            "prompts, or the policies that sampled them are too far from this one; "
            "give --reward module:function."
        )
    if overflowed:
        yield (
            f"after the step of {', '.join(overflowed)} at the learning rate "
            f"{plain.eta:.3g}, log-probs or importance weights overflow, so there is "
            "no result; give a smaller --eta."
        )
    if plain.settings in overflowed:
        return
    others = [p.entropy for p in pairs[1:] if p.entropy.settings not in overflowed]
    same = [o.name for o in others if o.changed == 0]
    if same:
        yield (
            f"{', '.join(same)} give every token the weight that plain gives it. "
            "Remedies that act on the ratio change nothing while every ratio is 1: "
            "look at a later minibatch. Remedies with a threshold change nothing until "
            "it is passed."
        )
    error = abs(plain.predicted - plain.observed)
    # An error within the noise of the observation says nothing about linearity.
    if error > _NONLINEAR * abs(plain.observed) and error > plain.observed_se:
        yield (
            f"plain's change of entropy is predicted as {plain.predicted:+.3g} and "
            f"observed as {plain.observed:+.3g}; the learning rate {plain.eta:.3g} is "
            "outside the linear regime, so rely on the observed changes."
        )
    # Momentum adds up a gain that stays on to 1 / share times one step's.
    rising = [
        o.settings
        for o in others
        if o.told_gain.low / plain.share > -plain.told_change.value > 0
    ]
    if rising:
        yield (
            f"if it stays on, {', '.join(rising)} can add more entropy per step than "
            "plain removes, so that entropy rises instead. Start with a "
            "smaller strength, and monitor entropy."
        )
    gains = [o.told_gain for o in others if o.changed > 0]
    vague = [gain for gain in gains if gain.low <= 0 <= gain.high]
    if gains and len(vague) > len(gains) / 2:
        yield (
            f"{len(vague)} of {len(gains)} differences in entropy are not significant; "
            "use more --prompts."
        )
