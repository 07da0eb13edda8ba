"""What was found, in words, and what a careful colleague would warn of."""

import math
from collections.abc import Iterator, Sized
from typing import Any

from entrometer.experiments.measure.changes import nearest_eta
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.update_signal import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.measure import Change, MeasureTables, Term, Variance

_LOW = 0.5
"""Share of the responses below which an effective sample is called small."""


def summarize(config: MeasureConfig, found: MeasureTables) -> dict[str, Any]:
    """Title, two sentences and the warnings of a measurement, as plain text."""
    terms = [t for t in found.terms if _is_default(t)]
    changes = [c for c in found.changes if _is_default(c)]
    return {
        "title": "One step's change of entropy",
        "sentences": [
            *without_signal(found.signal),
            _what(config, terms),
            _found(terms, changes),
            *signal_sentences(found.signal),
        ],
        "warnings": [
            *signal_warnings(found.signal),
            *_warnings(terms, changes),
            *_negative_variances(found.variances),
        ],
    }


def _what(config: MeasureConfig, terms: list[Term]) -> str:
    names = list(dict.fromkeys(t.checkpoint for t in terms))
    return (
        f"What one AdamW step does to the entropy of {_count(names, 'checkpoint')} "
        f"({', '.join(names)}), for {_count(terms, 'update batch', 'es')} on "
        f"{config.task}: measured on {config.prompts} prompts with a response each, in "
        f"{config.precision}, and predicted from the same samples."
    )


def _found(terms: list[Term], changes: list[Change]) -> str:
    told = []
    for t in terms:
        own = [
            c for c in changes if (c.checkpoint, c.update) == (t.checkpoint, t.update)
        ]
        eta = nearest_eta(t.learning_rate, [c.eta for c in own])
        told.append((t, next(c for c in own if c.eta == eta)))
    if len(told) == 1:
        ((t, c),) = told
        if not _is_finite(c):
            return (
                f"At the learning rate {c.eta:.3g} the change of entropy is undefined: "
                "the policy after such a step has no finite log-probs or weights."
            )
        regime = f", and holds well below the learning rate {t.eta_star:.2g}"
        return (
            f"At the learning rate {c.eta:.3g} entropy changes by "
            f"{_nats(c.observed, c.observed_low, c.observed_high)} nats a token, from "
            f"{t.entropy:.4g}; the linear prediction is "
            f"{_nats(c.linear, c.linear_low, c.linear_high)}"
            f"{'' if math.isnan(t.eta_star) else regime}."
        )
    falls = sum(c.observed_high < 0 for _, c in told)
    rises = sum(c.observed_low > 0 for _, c in told)
    worst = max(
        (
            abs(c.error) / abs(c.observed)
            for _, c in told
            if c.observed and _is_finite(c)
        ),
        default=0.0,
    )
    return (
        f"At the learning rate nearest to the training's, entropy falls for {falls} of "
        f"{len(told)} updates and rises for {rises}, beyond their 95% intervals; the "
        f"linear prediction is off by at most {worst:.0%} of the change."
    )


def _warnings(terms: list[Term], changes: list[Change]) -> Iterator[str]:
    for t in terms:
        name = f"{t.checkpoint}, {t.update}"
        own = [
            c for c in changes if (c.checkpoint, c.update) == (t.checkpoint, t.update)
        ]
        if not any(c.observed or c.linear for c in own):
            yield (
                f"{name}: the step moves nothing. In no group of the update are "
                "rewards unlike, and AdamW carries no momentum yet; sample another "
                "update, or more prompts of it (--update-prompts)."
            )
            continue
        undefined = [c.eta for c in own if not _is_finite(c)]
        if undefined:
            yield (
                f"{name}: at the learning rates {_listed(undefined)} the change is "
                "undefined: log-probs after the step, or the importance weights of "
                "responses, overflow. Measure smaller learning rates (--etas)."
            )
        own = [c for c in own if _is_finite(c)]
        if not own:
            continue
        beyond = [c.eta for c in own if c.eta > t.eta_star]
        if beyond:
            yield (
                f"{name}: at the learning rates from {min(beyond):.2g} on, which are "
                f"beyond eta* = {t.eta_star:.2g}, the linear prediction means nothing."
            )
        poor = [c.eta for c in own if c.effective_samples < _LOW * c.responses]
        if poor:
            yield (
                f"{name}: from the learning rate {min(poor):.2g} on, the effective "
                "sample is less than half of the responses; the change there rests on "
                "few of them."
            )
        drowned = [c.eta for c in own if abs(c.observed) < 3 * t.floor]
        if drowned:
            yield (
                f"{name}: up to the learning rate {max(drowned):.2g} the change is "
                f"below 3 times what rounding in {t.precision} makes ({t.floor:.1g} "
                "nats); measure it in float64."
            )
        wide = [c for c in own if c.observed_low <= 0 <= c.observed_high]
        if len(wide) == len(own):
            yield (
                f"{name}: at no learning rate is the change told from 0: its interval "
                "is wider than the effect; take more prompts."
            )


def _negative_variances(rows: list[Variance]) -> Iterator[str]:
    for row in rows:
        if math.isnan(row.one_batch_hoeffding_se) and row.one_batch_jackknife_se > 0:
            yield (
                f"{row.checkpoint}, {row.update}: the unbiased estimate of the one-"
                "batch statistic's variance is negative, as it can be with few prompts "
                "or heavy tails, so it gives no standard error; the jackknife's is "
                f"{row.one_batch_jackknife_se:.3g}."
            )


def _is_finite(c: Change) -> bool:
    return math.isfinite(c.observed) and math.isfinite(c.linear)


def _listed(etas: list[float]) -> str:
    return ", ".join(f"{eta:.3g}" for eta in etas)


def _is_default(row: Term | Change) -> bool:
    return row.weighting == "per_decision" and row.per == "token"


def _nats(value: float, low: float, high: float) -> str:
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def _count(things: Sized, what: str, plural: str = "s") -> str:
    return f"{len(things)} {what}" + (plural if len(things) != 1 else "")
