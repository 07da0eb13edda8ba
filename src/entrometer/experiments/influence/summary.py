"""Sentences and warnings of a measurement of influence."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from entrometer.experiments.config import CheckpointConfig
from entrometer.experiments.influence.config import InfluenceConfig
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
from entrometer.runs.tables.influence import Balance, InfluenceTables, top_share
from entrometer.tasks.own import OWN
from entrometer.text import interval_of, precision_text

_FEW = 32
"""Effective number of recorded responses below which rewards get a warning."""

_CONCENTRATED = 0.5
"""Fraction of the influence above which those tokens are worth a warning."""

Parts = dict[tuple[str, str], Balance]
"""Rows of table `balance` of one update, by objective and part."""


def summarize(config: InfluenceConfig, tables: InfluenceTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a measurement, as plain text."""
    return {
        "title": "Influence of every token of an update",
        "sentences": [
            *without_signal(tables.signal),
            _overview(config, tables, len(_updates(tables))),
            *findings(tables),
            *next_batch_sentences(tables.expected),
            *signal_sentences(tables.signal),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *warnings(config, tables),
            *next_batch_warnings(
                tables.expected,
                tables.batches,
                list(dict.fromkeys(row.checkpoint for row in tables.balance)),
                config.batches,
            ),
        ],
    }


def findings(tables: InfluenceTables) -> list[str]:
    """Return a sentence per update: what its batch, momentum and decay change."""
    return [
        _changes(name, parts, top_share(tables, *name))
        for name, parts in _updates(tables).items()
    ]


def warnings(config: CheckpointConfig, tables: InfluenceTables) -> list[str]:
    """Return the warnings of all updates, besides those on their signal."""
    recorded = config.task == OWN and not config.reward
    of_updates = [
        f"{', '.join(name)}: {warning}"
        for name, parts in _updates(tables).items()
        for warning in _warnings(parts, top_share(tables, *name), recorded)
    ]
    return [*of_updates, *_overflowed(tables)]


def _updates(tables: InfluenceTables) -> dict[tuple[str, str], Parts]:
    updates: dict[tuple[str, str], Parts] = {}
    for row in tables.balance:
        parts = updates.setdefault((row.checkpoint, row.update), {})
        parts[row.objective, row.part] = row
    return updates


def _overview(config: InfluenceConfig, tables: InfluenceTables, updates: int) -> str:
    rows = [b for b in tables.balance if b.objective == "reward"]
    # Of updates for which enough is known of rewards to say something.
    worth = [b.responses for b in rows if math.isfinite(b.value)]
    of_task = "" if config.task == OWN else f" on {config.task}"
    recorded = config.task == OWN and not config.reward and any(worth)
    return (
        f"Effect of each of {len(tables.tokens)} tokens in {len(tables.responses)} "
        f"responses of {updates} update batch{'es' if updates != 1 else ''} on entropy"
        + (f" and on expected reward{of_task}" if any(worth) else "")
        + f", measured on {config.prompts} prompts with "
        f"{responses_in_words(config.responses)} each, in "
        f"{config.folds} folds, in {precision_text(config.precision)}."
        + (f" {_of_recorded(worth)}" if recorded else "")
    )


def _changes(name: tuple[str, str], parts: Parts, share: float) -> str:
    batch, history, decay, reward = (
        interval_of(row, "value", scale=row.learning_rate)
        for row in (
            *(parts["entropy", part] for part in ("batch", "history", "decay")),
            parts["reward", "batch"],
        )
    )
    to_reward = f"; the batch changes expected reward by {reward}"
    return (
        f"{', '.join(name)}: at the learning rate "
        f"{parts['entropy', 'batch'].learning_rate:.3g}, to first order, the batch "
        f"changes entropy by {batch} nats per token, momentum by {history} and weight "
        f"decay by {decay}"
        + (to_reward if _known(parts) else "")
        + ("." if math.isnan(share) else f"; {_concentration(share)}.")
    )


def _of_recorded(worth: Sequence[float]) -> str:
    return (
        "Rewards are those of recorded responses to the same prompts, reweighted by "
        "their probability now over then; these are worth "
        f"{min(worth):.0f} responses of this policy."
    )


def _known(parts: Parts) -> bool:
    return math.isfinite(parts["reward", "batch"].value)


def _concentration(share: float) -> str:
    return (
        f"the top 1% of the tokens with a gradient have {share:.0%} of all |influence| "
        "on entropy"
    )


def _warnings(parts: Parts, share: float, recorded: bool) -> Iterator[str]:
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
    if not _known(parts):
        yield (
            "nothing is known about reward: no reward function is given, and other "
            "recorded updates have no responses to these prompts, or the policies that "
            "sampled them are too far from this one; give --reward module:function."
        )
    elif recorded and parts["reward", "batch"].responses < _FEW:
        yield (
            "rewards are known of recorded responses that are worth only "
            f"{parts['reward', 'batch'].responses:.0f} responses of this policy; give "
            "--reward module:function, to score fresh ones."
        )
    # Standard errors over folds do not show that few tokens make the sum.
    if share > _CONCENTRATED:
        yield f"{_concentration(share)}, so sums over tokens depend on few of them."


def _overflowed(tables: InfluenceTables) -> Iterator[str]:
    # A prediction that is NaN too means that no rewards are known.
    rows = [
        r
        for r in tables.removals
        if not math.isfinite(r.observed) and not math.isnan(r.predicted)
    ]
    for checkpoint, update, eta in dict.fromkeys(
        (r.checkpoint, r.update, r.eta) for r in rows
    ):
        yield (
            f"{checkpoint}, {update}: the check by removal has no result: after a step "
            f"at the learning rate {eta:.3g}, log-probs or importance weights "
            "overflow; give a smaller --eta."
        )
