"""Advice: which setting keeps how much entropy, at what cost, and how sure that is."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.update_signal import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.compare import CompareTables, Outcome, Remedy, Told

_SPARE = 0.1
"""Share of plain's reward growth that a remedy may cost and still be cheap."""

_BENT = 0.3
"""Share of the change by which the linear prediction may miss it."""


class Pair(NamedTuple):
    """What an intervention does to both."""

    entropy: Outcome
    reward: Outcome


def summarize(config: CompareConfig, found: CompareTables) -> dict[str, Any]:
    """Title, sentences and warnings of a comparison, as plain text."""
    points = points_of(found.outcomes)
    remedies = {r.settings: r for r in found.remedies}
    silent = {
        f"{s.checkpoint}, {s.update}, {s.minibatch}"
        for s in found.signal
        if s.groups_with_signal == 0
    }
    return {
        "title": "Interventions against entropy collapse, compared",
        "sentences": [
            *without_signal(found.signal),
            _what(config, found),
            *(
                sentence
                for name, pairs in points.items()
                for sentence in (
                    [_no_verdict(name)]
                    if name in silent
                    else _advice(name, pairs, remedies)
                )
            ),
            *signal_sentences(found.signal),
        ],
        "warnings": [
            *signal_warnings(found.signal),
            *(
                warning
                for name, pairs in points.items()
                if name not in silent
                for warning in _warnings(name, pairs)
            ),
        ],
    }


def _no_verdict(name: str) -> str:
    return (
        f"{name}: no verdict. The batch has no signal, so plain Dr-GRPO and every "
        "remedy that reweights its tokens make the same step, and a remedy that adds "
        "an entropy term is compared with nothing."
    )


def points_of(outcomes: Sequence[Outcome]) -> dict[str, list[Pair]]:
    """Interventions at the strength that is tried, by point; plain first."""
    points: dict[str, dict[str, dict[str, Outcome]]] = {}
    for o in outcomes:
        if o.tried:
            point = points.setdefault(f"{o.checkpoint}, {o.update}, {o.minibatch}", {})
            point.setdefault(o.settings, {})[o.objective] = o
    return {
        name: [Pair(own["entropy"], own["reward"]) for own in point.values()]
        for name, point in points.items()
    }


def _what(config: CompareConfig, found: CompareTables) -> str:
    names = dict.fromkeys(o.name for o in found.outcomes)
    return (
        f"{len(names)} losses on {config.task}, each held against plain Dr-GRPO: one "
        f"step of AdamW, predicted by influence and, at one strength each, taken; "
        f"{config.prompts} prompts in {config.folds} folds, half of which choose and "
        f"half of which judge, {config.precision}."
    )


def _advice(name: str, pairs: list[Pair], remedies: dict[str, Remedy]) -> Iterator[str]:
    plain = pairs[0]
    if not all(o.finite for o in plain):
        yield (
            f"{name}: no verdict. After plain Dr-GRPO's step at the learning rate "
            f"{plain.entropy.eta:.3g} entropy or reward is not a finite number; give a "
            "smaller --eta."
        )
        return
    pairs = [p for p in pairs if all(o.finite for o in p)]
    entropy, reward = (_told(o.told_change, digits=3) for o in plain)
    yield (
        f"{name}: plain Dr-GRPO changes entropy by {entropy} nats a token and expected "
        f"reward by {reward} at the learning rate {plain.entropy.eta:.3g}."
    )
    # Frontier's tokens are chosen by a measurement, not by a setting.
    others = [p for p in pairs[1:] if p.entropy.name != "frontier"]
    saving = [p for p in others if p.entropy.told_gain.low > 0]
    yield (
        f"{name}: {len(saving)} of {len(others)} remedies keep more entropy than plain "
        f"beyond noise, {sum(p.reward.told_gain.high < 0 for p in saving)} of them at "
        "a cost in reward beyond noise."
    )
    best = _chosen(plain, others)
    if best is None:
        yield f"{name}: none is predicted to keep more entropy than plain Dr-GRPO."
        return
    kept, bought = best.entropy.told_gain, best.reward.told_gain
    sure = "" if kept.low > 0 else ", which is within noise"
    yield (
        f"{name}: the half of the prompts that chooses names {best.entropy.settings}; "
        f"on the other half it keeps {_told(kept)} nats a token more than "
        f"plain{sure}, for {_told(bought)} of reward: a cost above "
        f"{max(0.0, -bought.low):.2g} is excluded."
    )
    share = best.entropy.share
    yield (
        f"{name}: this minibatch is {share:.0%} of the step and momentum the rest. "
        f"Kept up, {best.entropy.settings} comes to at most {1 / share:.3g} times that "
        f"a step if nothing answers it: {kept.value / share:+.2g} nats a token "
        f"beside plain's {plain.entropy.told_change.value:+.2g}."
    )
    yield f"{name}: {_lines(remedies[best.entropy.settings])}"


def _chosen(plain: Pair, others: Sequence[Pair]) -> Pair | None:
    """The most entropy at hardly a cost, by prompts that judge nothing."""

    def gain(pair: Pair, objective: str) -> float:
        own: Outcome = getattr(pair, objective)
        base: Outcome = getattr(plain, objective)
        return own.elsewhere - base.elsewhere

    keeping = [p for p in others if gain(p, "entropy") > 0]
    spare = _SPARE * abs(plain.reward.elsewhere)
    cheap = [p for p in keeping if gain(p, "reward") >= -spare]
    return max(cheap or keeping, key=lambda p: gain(p, "entropy"), default=None)


def _lines(remedy: Remedy) -> str:
    """How to have it elsewhere."""
    trl = remedy.trl or "it has no setting for it"
    verl = remedy.verl or "it has none"
    differs = f" There {remedy.differs}." if remedy.differs else ""
    return (
        f'entrometer train --intervention "{remedy.settings}"; in TRL: {trl}; in verl: '
        f"{verl}.{differs}"
    )


def _warnings(name: str, pairs: list[Pair]) -> Iterator[str]:
    overflowed = [p.entropy.settings for p in pairs if not all(o.finite for o in p)]
    if overflowed:
        yield (
            f"{name}: after the step of {', '.join(overflowed)} at the learning rate "
            f"{pairs[0].entropy.eta:.3g} log-probs or importance weights overflow, so "
            "there is no result; give a smaller --eta."
        )
    if pairs[0].entropy.settings in overflowed:
        return
    pairs = [p for p in pairs if p.entropy.settings not in overflowed]
    plain = pairs[0].entropy
    same = [p.entropy.name for p in pairs[1:] if p.entropy.changed == 0]
    if same:
        yield (
            f"{name}: {', '.join(same)} pull on every token as plain Dr-GRPO does "
            "here. A remedy of ratios does nothing where every ratio is 1: look at a "
            "later minibatch; one with a threshold, until that is passed."
        )
    off = abs(plain.predicted - plain.observed)
    if off > _BENT * abs(plain.observed) and off > plain.observed_se:
        yield (
            f"{name}: plain's change of entropy is predicted as {plain.predicted:+.3g} "
            f"and is {plain.observed:+.3g}; the learning rate {plain.eta:.3g} is "
            "outside the linear regime, so trust what was observed."
        )
    rising = [
        p.entropy.settings
        for p in pairs[1:]
        if p.entropy.told_gain.low / plain.share > -plain.told_change.value > 0
    ]
    if rising:
        yield (
            f"{name}: kept up, {', '.join(rising)} can give back more entropy a step "
            "than plain Dr-GRPO drains, so that entropy rises instead. Begin with less "
            "of it, and watch."
        )
    seen = [p for p in pairs[1:] if p.entropy.changed > 0]
    gains = [p.entropy.told_gain for p in seen]
    vague = [gain for gain in gains if gain.low <= 0 <= gain.high]
    if seen and len(vague) > len(seen) / 2:
        yield (
            f"{name}: {len(vague)} of {len(seen)} differences in entropy are within "
            "noise; take more --prompts."
        )


def _told(told: Told, digits: int = 2) -> str:
    value, low, high = (f"{x:+.{digits}g}" for x in told)
    return f"{value} [{low}, {high}]"
