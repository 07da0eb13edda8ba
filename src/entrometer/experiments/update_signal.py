"""Sentences on the signal of updates, for the summary of every experiment."""

from collections.abc import Iterator, Sequence

from entrometer.runs.tables.signal import UpdateSignal

_UNITS = {"entropy": "nats per token", "log-prob": "nats per response"}


def without_signal(rows: Sequence[UpdateSignal]) -> list[str]:
    """Return the first sentence of a summary if updates lack signal; else nothing."""
    names = [name_of(row) for row in rows if row.groups_with_signal == 0]
    if not names:
        return []
    return [
        f"No signal: {'; '.join(names)}: no prompt group has an advantage other than "
        "0, so what follows measures momentum, not this batch."
    ]


def signal_warnings(rows: Sequence[UpdateSignal]) -> Iterator[str]:
    """Yield a warning for each update without signal."""
    for row in rows:
        if row.groups_with_signal == 0:
            yield (
                f"{name_of(row)}: none of its {row.groups} prompt groups has signal: "
                "all advantages are 0, as they are if the responses of each group earn "
                "equal rewards. The step is momentum and weight decay alone. Use "
                "another update, or one with more prompts (--updates sampled-N, "
                "--update-prompts)."
            )


def signal_sentences(rows: Sequence[UpdateSignal]) -> Iterator[str]:
    """Yield, per update, the groups with signal and the part of momentum."""
    for row in rows:
        yield (
            f"{name_of(row)}: {row.groups_with_signal} of {row.groups} prompt groups "
            f"have signal; of the predicted change of {row.quantity}, "
            f"{row.predicted:+.3g} {_UNITS[row.quantity]} at the learning rate "
            f"{row.eta:.3g}, momentum makes {row.momentum:+.3g} "
            f"[{row.momentum_low:+.3g}, {row.momentum_high:+.3g}]."
        )


def name_of(row: UpdateSignal) -> str:
    """Return the checkpoint and update of a row, with its minibatch if it is one."""
    part = "" if row.minibatch == "1/1" else f", minibatch {row.minibatch}"
    return f"{row.checkpoint}, {row.update}{part}"
