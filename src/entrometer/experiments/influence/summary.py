"""Sentences and warnings of a measurement of influence."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.result_fields import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.influence import Balance, InfluenceTables
from entrometer.text import interval

_TOP = 0.01
"""Fraction of the tokens that counts as the most influential."""

_CONCENTRATED = 0.5
"""Fraction of the influence above which those tokens are worth a warning."""

Parts = dict[tuple[str, str], Balance]
"""Rows of table `balance` of one update, by objective and part."""


def summarize(config: InfluenceConfig, tables: InfluenceTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a measurement, as plain text."""
    updates: dict[tuple[str, str], Parts] = {}
    for row in tables.balance:
        parts = updates.setdefault((row.checkpoint, row.update), {})
        parts[row.objective, row.part] = row
    shares = {name: _top_share(tables, name) for name in updates}
    return {
        "title": "Influence of every token of an update",
        "sentences": [
            *without_signal(tables.signal),
            _overview(config, tables, len(updates)),
            *(_changes(name, parts, shares[name]) for name, parts in updates.items()),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *(
                f"{', '.join(name)}: {warning}"
                for name, parts in updates.items()
                for warning in _warnings(parts, shares[name])
            ),
            *_overflowed(tables),
        ],
    }


def _overview(config: InfluenceConfig, tables: InfluenceTables, updates: int) -> str:
    return (
        f"Effect of each of {len(tables.tokens)} tokens in {len(tables.responses)} "
        f"responses of {updates} update batch{'es' if updates != 1 else ''} on entropy "
        f"and on expected reward on {config.task}, measured on {config.prompts} "
        f"prompts with one response each, in {config.folds} folds, in "
        f"{config.precision}."
    )


def _changes(name: tuple[str, str], parts: Parts, share: float) -> str:
    batch, history, decay, reward = (
        interval(row.value, row.value_low, row.value_high, scale=row.learning_rate)
        for row in (
            *(parts["entropy", part] for part in ("batch", "history", "decay")),
            parts["reward", "batch"],
        )
    )
    return (
        f"{', '.join(name)}: at the learning rate "
        f"{parts['entropy', 'batch'].learning_rate:.3g}, to first order, the batch "
        f"changes entropy by {batch} nats per token, momentum by {history} and weight "
        f"decay by {decay}; the batch changes expected reward by {reward}"
        + ("." if math.isnan(share) else f"; {_concentration(share)}.")
    )


def _concentration(share: float) -> str:
    return f"the top 1% of the tokens have {share:.0%} of all |influence| on entropy"


def _warnings(parts: Parts, share: float) -> Iterator[str]:
    if abs(parts["entropy", "history"].value) > abs(parts["entropy", "batch"].value):
        yield (
            "momentum of earlier batches changes entropy more than this batch does, so "
            "no token of this batch explains most of the change."
        )
    for objective in ("entropy", "reward"):
        row = parts[objective, "batch"]
        if row.value_low <= 0 <= row.value_high:
            yield (
                f"the batch's effect on {objective} is not distinguishable from 0 (its "
                "95% interval contains 0); use more --prompts."
            )
    # Standard errors over folds do not show that few tokens make the sum.
    if share > _CONCENTRATED:
        yield f"{_concentration(share)}, so sums over tokens depend on few of them."


def _overflowed(tables: InfluenceTables) -> Iterator[str]:
    rows = [r for r in tables.removals if not math.isfinite(r.observed)]
    for checkpoint, update, eta in dict.fromkeys(
        (r.checkpoint, r.update, r.eta) for r in rows
    ):
        yield (
            f"{checkpoint}, {update}: the check by removal has no result: after a step "
            f"at the learning rate {eta:.3g}, log-probs or importance weights "
            "overflow; give a smaller --eta."
        )


def _top_share(tables: InfluenceTables, name: tuple[str, str]) -> float:
    r"""Return the part of $\sum|I_h|$ due to 1% of the tokens; NaN if the sum is 0."""
    rows = [t for t in tables.tokens if (t.checkpoint, t.update) == name]
    # Absolute values: influences of opposite sign would cancel in the total.
    size = np.sort([abs(t.entropy) for t in rows])[::-1]
    total, top = size.sum(), max(1, round(_TOP * size.size))
    return float(size[:top].sum() / total) if total else math.nan
