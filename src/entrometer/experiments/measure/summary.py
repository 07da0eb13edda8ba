"""Summary of a measurement: title, sentences and warnings as plain text."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from entrometer.experiments.measure.collect import nearest_eta
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.next_batches.summary import (
    next_batch_sentences,
    next_batch_warnings,
)
from entrometer.experiments.result_fields import (
    responses_in_words,
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.measure import Change, MeasureTables, Term, Variance
from entrometer.text import interval_of, precision_text

_LOW = 0.5
"""Share of the responses below which the summary warns of the effective sample."""


def summarize(config: MeasureConfig, tables: MeasureTables) -> dict[str, Any]:
    """Return title, sentences and warnings of a measurement."""
    return {
        "title": "Entropy change of one optimizer step",
        "sentences": [
            *without_signal(tables.signal),
            _measured(config, [term for term, _ in _updates(tables)]),
            finding(tables),
            *next_batch_sentences(tables.expected),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *warnings(tables),
            *next_batch_warnings(
                tables.expected, tables.batches, _names(tables), config.batches
            ),
        ],
    }


def finding(tables: MeasureTables) -> str:
    """Return the change at the training's learning rate, as a sentence."""
    return _result(_updates(tables))


def warnings(tables: MeasureTables) -> list[str]:
    """Return the warnings of all updates, besides those on their signal."""
    updates = _updates(tables)
    return [
        *(text for term, changes in updates for text in _warnings(term, changes)),
        *_negative_variances(tables.variances),
    ]


def _updates(tables: MeasureTables) -> list[tuple[Term, list[Change]]]:
    return [
        (term, [c for c in tables.changes if _labels(c) == _labels(term)])
        for term in tables.terms
        if (term.weighting, term.per) == ("per_decision", "token")
    ]


def _names(tables: MeasureTables) -> list[str]:
    return list(dict.fromkeys(term.checkpoint for term in tables.terms))


def _measured(config: MeasureConfig, terms: Sequence[Term]) -> str:
    names = list(dict.fromkeys(term.checkpoint for term in terms))
    return (
        f"Change of entropy by one AdamW step at {len(names)} "
        f"checkpoint{'s' * (len(names) != 1)} ({', '.join(names)}), for {len(terms)} "
        f"update batch{'es' * (len(terms) != 1)} on {config.task}: measured on "
        f"{config.prompts} prompts with {responses_in_words(config.responses)} each, "
        f"in {precision_text(config.precision)}, and predicted from the same samples."
    )


def _result(updates: Sequence[tuple[Term, list[Change]]]) -> str:
    nearest = []
    for term, changes in updates:
        eta = nearest_eta(term.learning_rate, [c.eta for c in changes])
        nearest.append(next(c for c in changes if c.eta == eta))
    if len(updates) == 1:
        return _one_result(updates[0][0], nearest[0])
    # An undefined interval (NaN) counts as neither.
    falls = sum(c.observed_high < 0 for c in nearest)
    rises = sum(c.observed_low > 0 for c in nearest)
    relative = (
        abs(c.error) / abs(c.observed) for c in nearest if c.observed and _is_finite(c)
    )
    return (
        f"At the learning rate nearest to the training's, entropy falls for {falls} of "
        f"{len(nearest)} updates and rises for {rises} (95% intervals that exclude "
        "0); the linear prediction differs from the measured change by at most "
        f"{max(relative, default=0.0):.0%} of it."
    )


def _one_result(term: Term, c: Change) -> str:
    if not _is_finite(c):
        return (
            f"At the learning rate {c.eta:.3g} the change of entropy is undefined: "
            "log-probs after the step, or importance weights, are not finite."
        )
    valid = f", valid well below the learning rate {term.eta_star:.2g}"
    return (
        f"At the learning rate {c.eta:.3g} the step changes the entropy by "
        f"{interval_of(c, 'observed')} nats per token, from "
        f"{term.entropy:.4g}; the linear prediction is "
        f"{interval_of(c, 'linear')}"
        f"{'' if math.isnan(term.eta_star) else valid}."
    )


def _warnings(term: Term, changes: Sequence[Change]) -> Iterator[str]:
    name = f"{term.checkpoint}, {term.update}"
    # Exactly 0: no gradient and no momentum, so no parameter moves.
    if not any(c.observed or c.linear for c in changes):
        yield (
            f"{name}: the step moves nothing: all advantages of the update are 0, and "
            "AdamW has no momentum yet. Use another update, or one with more prompts "
            "(--update-prompts)."
        )
        return
    undefined = [f"{c.eta:.3g}" for c in changes if not _is_finite(c)]
    if undefined:
        yield (
            f"{name}: at the learning rates {', '.join(undefined)} the change is "
            "undefined: log-probs after the step, or importance weights of responses, "
            "overflow. Use smaller learning rates (--etas)."
        )
    # Comparisons with NaN are False: an undefined change would pass every check.
    changes = [c for c in changes if _is_finite(c)]
    # At eta* = 2|h'|/|h''| the second-order term is as large as the first-order one.
    beyond = [c.eta for c in changes if c.eta > term.eta_star]
    if beyond:
        yield (
            f"{name}: learning rates from {min(beyond):.2g} are beyond eta* = "
            f"{term.eta_star:.2g}, where the quadratic term exceeds the linear one; "
            "do not use the linear prediction there."
        )
    low = [c.eta for c in changes if c.effective_samples < _LOW * c.responses]
    if low:
        yield (
            f"{name}: from the learning rate {min(low):.2g} on, the effective sample "
            "size is less than half of the responses, so a minority of the responses "
            "determines the change."
        )
    rounded = [c.eta for c in changes if abs(c.observed) < 3 * term.floor]
    if rounded:
        yield (
            f"{name}: up to the learning rate {max(rounded):.2g} the change is less "
            f"than 3 times the rounding error of {precision_text(term.precision)} "
            f"({term.floor:.1g} nats); use --precision float64."
        )
    if changes and all(c.observed_low <= 0 <= c.observed_high for c in changes):
        yield (
            f"{name}: the 95% interval of the change includes 0 at every learning "
            "rate; use more prompts (--prompts)."
        )


def _negative_variances(rows: Sequence[Variance]) -> Iterator[str]:
    for row in rows:
        # Both are NaN if the statistic was not computed: too few prompts.
        if math.isnan(row.one_batch_hoeffding_se) and row.one_batch_jackknife_se > 0:
            yield (
                f"{row.checkpoint}, {row.update}: the unbiased variance estimate of "
                "the one-batch statistic is negative, which happens with few prompts "
                "or heavy tails, so it gives no standard error; the jackknife's is "
                f"{row.one_batch_jackknife_se:.3g}."
            )


def _is_finite(c: Change) -> bool:
    return math.isfinite(c.observed) and math.isfinite(c.linear)


def _labels(row: Term | Change) -> tuple[str, ...]:
    return row.checkpoint, row.update, row.weighting, row.per
