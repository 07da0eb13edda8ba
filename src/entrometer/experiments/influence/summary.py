"""What was found, in words, and what a careful colleague would warn of."""

import math
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np

from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.update_signal import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.influence import Balance, InfluenceTables

_TOP = 0.01
"""Share of the tokens that are told apart as the largest."""

_FEW = 0.5
"""Share of the influence from which on so few tokens are worth a warning."""

Parts = dict[tuple[str, str], Balance]
"""Of one update, by objective and part."""


def summarize(config: InfluenceConfig, found: InfluenceTables) -> dict[str, Any]:
    """Title, sentences and warnings of a measurement, as plain text."""
    updates: dict[tuple[str, str], Parts] = {}
    for row in found.balance:
        own = updates.setdefault((row.checkpoint, row.update), {})
        own[row.objective, row.part] = row
    shares = {name: _share(found, *name) for name in updates}
    return {
        "title": "Influence of every token of an update",
        "sentences": [
            *without_signal(found.signal),
            _what(config, found, updates),
            *(_found(*name, own, shares[name]) for name, own in updates.items()),
            *signal_sentences(found.signal),
        ],
        "warnings": [
            *signal_warnings(found.signal),
            *(
                warning
                for name, own in updates.items()
                for warning in _warnings(", ".join(name), own, shares[name])
            ),
            *_overflowed(found),
        ],
    }


def _what(config: InfluenceConfig, found: InfluenceTables, updates: Sized) -> str:
    plural = "es" if len(updates) != 1 else ""
    return (
        f"What each of {len(found.tokens)} tokens in {len(found.responses)} responses "
        f"of {len(updates)} update batch{plural} does to entropy and to expected "
        f"reward on {config.task}: measured on {config.prompts} prompts with a "
        f"response each, in {config.folds} folds and {config.precision}."
    )


def _found(checkpoint: str, update: str, own: Parts, share: float) -> str:
    entropy, reward = own["entropy", "batch"], own["reward", "batch"]
    rate = entropy.learning_rate
    return (
        f"{checkpoint}, {update}: at the learning rate {rate:.3g} the batch changes "
        f"entropy by {_value(entropy)} nats a token, momentum by "
        f"{_value(own['entropy', 'history'])}, decay by "
        f"{_value(own['entropy', 'decay'])}; the batch changes expected reward by "
        f"{_value(reward)}" + ("." if math.isnan(share) else f"; {_carried(share)}.")
    )


def _carried(share: float) -> str:
    return f"1% of the tokens carries {share:.0%} of the influence on entropy"


def _warnings(name: str, own: Parts, share: float) -> Iterator[str]:
    batch, history = own["entropy", "batch"], own["entropy", "history"]
    if abs(history.value) > abs(batch.value):
        yield (
            f"{name}: most of the slope is history: momentum of earlier batches moves "
            "entropy more than this batch does, and none of its tokens is to blame."
        )
    for objective in ("entropy", "reward"):
        row = own[objective, "batch"]
        if row.value_low <= 0 <= row.value_high:
            yield (
                f"{name}: the batch's effect on {objective} is not told from 0; its "
                "interval is wider than the effect: take more prompts."
            )
    if share > _FEW:
        yield (f"{name}: {_carried(share)}; sums over tokens rest on few of them.")


def _overflowed(found: InfluenceTables) -> Iterator[str]:
    rows = [r for r in found.removals if not math.isfinite(r.observed)]
    for name, eta in dict.fromkeys(
        (f"{r.checkpoint}, {r.update}", r.eta) for r in rows
    ):
        yield (
            f"{name}: the check by removal has no result: after a step at the learning "
            f"rate {eta:.3g} log-probs or importance weights overflow; give a smaller "
            "--eta."
        )


def _share(found: InfluenceTables, checkpoint: str, update: str) -> float:
    r"""Return the share of $\sum|I_h|$ that 1% of the tokens carries; NaN for a 0."""
    size = np.sort(
        [
            abs(t.entropy)
            for t in found.tokens
            if (t.checkpoint, t.update) == (checkpoint, update)
        ]
    )[::-1]
    total = size.sum()
    top = max(1, round(_TOP * size.size))
    return float(size[:top].sum() / total) if total else math.nan


def _value(row: Balance) -> str:
    """At the training's learning rate."""
    x = [row.learning_rate * v for v in (row.value, row.value_low, row.value_high)]
    return f"{x[0]:+.3g} [{x[1]:+.3g}, {x[2]:+.3g}]"
