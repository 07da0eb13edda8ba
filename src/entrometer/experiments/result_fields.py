"""Fields that all experiments' tables share, and sentences on an update's signal."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from entrometer.estimators import Estimate
from entrometer.runs.tables.signal import UpdateSignal
from entrometer.text import interval_of

UNITS = {"entropy": "nats per token", "reward": "per response"}
"""Units of the objectives, after a number and in a sentence that names them."""

_UNITS = UNITS | {"log-prob": "nats per response"}


def estimate_fields(
    name: str, e: Estimate | None, *, scale: float = 1.0
) -> dict[str, Any]:
    """Return value, error and interval of `e` times `scale` as columns; NaN if None."""
    names = {"": "value", "_se": "standard_error", "_low": "low", "_high": "high"}
    # None has none of the attributes, so that all four columns are NaN.
    return {name + x: scale * getattr(e, y, math.nan) for x, y in names.items()}


def update_signal(
    groups_with_signal: tuple[int, int],
    momentum: Estimate,
    *,
    scale: float = 1.0,
    **fields: Any,
) -> UpdateSignal:
    """Return an update's row: groups with signal, and momentum's part of the change.

    `fields` are the other columns; `scale` is eta if `momentum` is a slope, else 1.
    """
    with_signal, groups = groups_with_signal
    return UpdateSignal(
        groups=groups,
        groups_with_signal=with_signal,
        **({"minibatch": "1/1", "quantity": "entropy"} | fields),
        **estimate_fields("momentum", momentum, scale=scale),
    )


def responses_in_words(count: int) -> str:
    """Return `one response`, or a number of responses."""
    return "one response" if count == 1 else f"{count} responses"


def without_signal(rows: Sequence[UpdateSignal]) -> list[str]:
    """Return a sentence that names the updates whose advantages are all 0, if any."""
    names = [_name(row) for row in rows if row.groups_with_signal == 0]
    if not names:
        return []
    return [
        f"No signal: {'; '.join(names)}: no prompt group has an advantage other than "
        "0, so what follows measures momentum, weight decay and terms of the loss "
        "without an advantage, not the rewards of this batch."
    ]


def signal_warnings(rows: Sequence[UpdateSignal]) -> Iterator[str]:
    """Yield a warning for each update without signal."""
    for row in rows:
        if row.groups_with_signal == 0:
            yield (
                f"{_name(row)}: none of its {row.groups} prompt groups has signal: "
                "all advantages are 0, as they are if the responses of each group earn "
                "equal rewards. The step is momentum, weight decay and terms of the "
                "loss without an advantage, such as an entropy bonus. Use another "
                "update, or one with more prompts (--updates sampled-N, "
                "--update-prompts)."
            )


def signal_sentences(rows: Sequence[UpdateSignal]) -> Iterator[str]:
    """Yield one sentence per update: its groups with signal, and momentum's part."""
    for row in rows:
        yield (
            f"{_name(row)}: {row.groups_with_signal} of {row.groups} prompt groups "
            f"have signal; of the predicted change of {row.quantity}, "
            f"{row.predicted:+.3g} {_UNITS[row.quantity]} at the learning rate "
            f"{row.eta:.3g}, momentum makes "
            f"{interval_of(row, 'momentum')}."
        )


def _name(row: UpdateSignal) -> str:
    part = "" if row.minibatch == "1/1" else f", minibatch {row.minibatch}"
    return f"{row.checkpoint}, {row.update}{part}"
