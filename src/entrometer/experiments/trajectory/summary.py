"""Sentences and warnings of a trajectory: how much of the curve the updates explain."""

from collections.abc import Iterator
from typing import Any

from entrometer.experiments.result_fields import UNITS, responses_in_words
from entrometer.experiments.trajectory.config import TrajectoryConfig
from entrometer.runs.tables.trajectory import (
    Explained,
    Summed,
    TrajectoryTables,
)
from entrometer.text import interval, interval_of, precision_text

_NAMES = {"entropy": "Entropy", "reward": "Expected reward"}
_FAR = 0.25
"""Distance of an explained share from 1 from which the summary warns."""


def summarize(config: TrajectoryConfig, tables: TrajectoryTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a trajectory, as plain text."""
    return {
        "title": "Entropy along a training, and what its updates predict",
        "sentences": [
            *_answers(tables),
            *_causes(tables),
            *_step_by_step(tables),
            _how(config, tables),
        ],
        "warnings": list(_warnings(tables)),
    }


def explained(tables: TrajectoryTables, objective: str, prediction: str) -> Explained:
    """Return the row of one objective and one prediction."""
    return next(
        row
        for row in tables.total
        if (row.objective, row.prediction) == (objective, prediction)
    )


def summed(tables: TrajectoryTables, objective: str, by: str) -> list[Summed]:
    """Return the sums of an objective by part or by kind, the lowest first."""
    rows = [r for r in tables.sums if (r.objective, r.by) == (objective, by)]
    return sorted(rows, key=lambda row: row.value)


def _answers(tables: TrajectoryTables) -> Iterator[str]:
    for objective, unit in UNITS.items():
        by_updates, by_weights = (
            explained(tables, objective, x) for x in ("updates", "weights")
        )
        # Reward is not known where nothing scores responses.
        if by_updates.measured != by_updates.measured:
            continue
        yield (
            f"{_NAMES[objective]} {_measured(by_updates)} {unit} from "
            f"{by_updates.first} to {by_updates.last}. The linear predictions of its "
            f"{by_updates.updates} recorded updates sum to {_predicted(by_updates)}; "
            "along the differences of the weights they sum to "
            f"{_predicted(by_weights)}."
        )


def _measured(row: Explained) -> str:
    change, low, high = row.measured, row.measured_low, row.measured_high
    if high < 0:
        return f"fell by {interval(-change, -high, -low).replace('+', '')}"
    if low > 0:
        return f"rose by {interval(change, low, high).replace('+', '')}"
    return f"may be unchanged: it changed by {interval(change, low, high)}"


def _predicted(row: Explained) -> str:
    told = interval_of(row, "predicted")
    if row.share != row.share:
        return told
    low, high = f"{row.share_low:.0%}", f"{row.share_high:.0%}"
    ends = f" [{low}, {high}]" if row.share_low == row.share_low else ""
    return f"{told}, {row.share:.0%}{ends} of it"


def _causes(tables: TrajectoryTables) -> Iterator[str]:
    parts = {row.name: row for row in summed(tables, "entropy", "part")}
    batch, history, decay = (
        interval_of(row, "value")
        for row in (parts[name] for name in ("batch", "history", "decay"))
    )
    yield (
        f"Of the predictions for entropy, momentum makes {history}, the batches "
        f"themselves {batch} and weight decay {decay} nats per token."
    )
    kinds = summed(tables, "entropy", "kind")
    most = kinds[0]
    if most.value < 0:
        told = interval_of(most, "value")
        yield (
            f"Of the batches' tokens, those of the kind {most.name!r} drained most: "
            f"{told} nats per token by {most.tokens} tokens."
        )
    for row in tables.concentration:
        if not row.half:
            yield (
                f"Summed over the {row.prompts} prompts of the recorded updates, no "
                "drain by the batches holds on held-out evaluation prompts."
            )
            continue
        told = interval_of(row, "drained")
        yield (
            f"{row.half} of the {row.prompts} prompts in the recorded updates account "
            f"for half of what the batches drained ({told} of {row.drain:+.3g} nats "
            "per token, chosen and measured on different evaluation prompts)."
        )


def _step_by_step(tables: TrajectoryTables) -> Iterator[str]:
    for row in tables.total:
        if row.objective != "entropy" or row.updates < 3:
            continue
        fit = interval_of(row, "correlation")
        slope = interval_of(row, "slope")
        yield (
            f"Interval by interval, predictions by {row.prediction} and measured "
            f"changes of entropy correlate with {fit}, the slope is {slope}, and in "
            f"{row.covered} of {row.updates} intervals their difference is not "
            "distinguishable from 0."
        )


def _how(config: TrajectoryConfig, tables: TrajectoryTables) -> str:
    steps = {row.steps for row in tables.intervals}
    apart = (
        "one step each, so that no step is assumed"
        if steps == {1}
        else f"of {min(steps)} to {max(steps)} steps"
        if len(steps) > 1
        else f"of {min(steps)} steps"
    )
    return (
        f"Measured at {len({row.checkpoint for row in tables.curve})} checkpoints on "
        f"the same {config.prompts} prompts of {config.task} with "
        f"{responses_in_words(config.responses)} each, in {config.folds} folds, in "
        f"{precision_text(config.precision)}; intervals are {apart}."
    )


def _warnings(tables: TrajectoryTables) -> Iterator[str]:
    row = explained(tables, "entropy", "updates")
    by_weights = explained(tables, "entropy", "weights")
    if row.steps > row.updates:
        yield (
            f"{row.updates} of {row.steps} updates are measured, one per interval; the "
            "predictions by updates assume that the others of an interval are like its "
            "first, and their intervals are as wide as the updates vary. The "
            "predictions by weights assume nothing of the steps."
        )
    if not (row.measured_low > 0 or row.measured_high < 0):
        yield (
            "the measured change of entropy is not distinguishable from 0 (its 95% "
            "interval contains 0), so no share of it is explained; use more --prompts, "
            "or checkpoints that are further apart."
        )
        return
    for prediction in (row, by_weights):
        off = max(prediction.share_low - 1, 1 - prediction.share_high)
        if off > 0 and abs(prediction.share - 1) > _FAR:
            yield (
                f"predictions by {prediction.prediction} miss the measured change of "
                f"entropy by {abs(prediction.share - 1):.0%} of it: steps of this size "
                "are no line, so sums by part, kind and prompt rank causes and are not "
                "shares of the measured change."
            )
