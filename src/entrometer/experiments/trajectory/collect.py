"""Rows of the result tables, from what was measured along a training."""

# Axes: N intervals, R = 1 + Q: all folds, then without each.

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    Estimate,
    held_out_sums,
    over_folds,
    variance_of_rest,
)
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.trajectory.changes import Trajectory, read_trajectory
from entrometer.experiments.trajectory.config import TrajectoryConfig
from entrometer.experiments.trajectory.plan import TrajectoryPoint
from entrometer.experiments.trajectory.timeline import Timeline
from entrometer.runs.tables.trajectory import (
    Concentration,
    Explained,
    IntervalChange,
    Level,
    Summed,
    TrainedPrompt,
    TrajectoryTables,
)

Rows = Float[np.ndarray, "N R"]

_NOT_KNOWN = Estimate(math.nan, math.nan, math.nan, math.nan, math.nan, 0)


def collect(
    config: TrajectoryConfig, points: Sequence[TrajectoryPoint], store: Path
) -> TrajectoryTables:
    """Return all result tables; the store must hold the result of every pass."""
    whole = read_trajectory(points, store)
    tables = TrajectoryTables()
    for objective, changes in whole.objectives.items():
        timeline = Timeline(points, changes)
        tables.total.extend(_explained(timeline, objective))
        tables.curve.extend(_curve(timeline, objective))
        tables.intervals.extend(_intervals(timeline, objective))
        tables.sums.extend(_sums(timeline, objective, whole.tokens))
    tables.concentration.extend(_concentration(whole))
    tables.prompts.extend(_prompts(whole))
    return tables


def _curve(timeline: Timeline, objective: str) -> Iterator[Level]:
    for i, point in enumerate(timeline.points):
        so_far = {part: timeline.so_far(part, i) for part in ("updates", "weights")}
        yield Level(
            checkpoint=point.name,
            step=point.steps,
            objective=objective,
            **estimate_fields("value", timeline.changes.levels[i].estimate()),
            **estimate_fields("change", timeline.measured(0, i)),
            **estimate_fields("updates", so_far["updates"]),
            **estimate_fields("weights", so_far["weights"]),
            prompts=timeline.changes.levels[i].prompt.size,
            responses=timeline.changes.effective[i],
        )


def _intervals(timeline: Timeline, objective: str) -> Iterator[IntervalChange]:
    for i, point in enumerate(timeline.points[:-1]):
        assert point.influenced is not None
        measured = timeline.measured(i, i + 1)
        for part in (*timeline.changes.parts, "weights"):
            predicted = timeline.predicted(part)[i]
            single, here = timeline.single_steps(part), slice(i, i + 1)
            difference = _NOT_KNOWN
            if part in ("updates", "weights"):
                apart = predicted - timeline.changes.measured[i]
                difference = timeline.estimate(apart, single, here)
            yield IntervalChange(
                checkpoint=point.name,
                step=point.steps,
                steps=int(timeline.steps[i]),
                learning_rate=point.influenced.learning_rate,
                objective=objective,
                part=part,
                **estimate_fields(
                    "predicted", timeline.estimate(predicted, single, here)
                ),
                **estimate_fields("measured", measured),
                **estimate_fields("difference", difference),
            )


def _explained(timeline: Timeline, objective: str) -> Iterator[Explained]:
    first, last = timeline.points[0], timeline.points[-1]
    by_interval = timeline.changes.measured
    measured = timeline.measured(0, len(timeline.points) - 1)
    for prediction in ("updates", "weights"):
        predicted, single = (
            timeline.predicted(prediction),
            timeline.single_steps(prediction),
        )
        total = predicted.sum(axis=0)
        differences = [
            timeline.estimate(apart, single, slice(i, i + 1))
            for i, apart in enumerate(predicted - by_interval)
        ]
        yield Explained(
            objective=objective,
            prediction=prediction,
            first=first.name,
            last=last.name,
            steps=last.steps - first.steps,
            updates=len(timeline.steps),
            **estimate_fields("predicted", timeline.estimate(total, single)),
            **estimate_fields("measured", measured),
            **estimate_fields("share", _share(timeline, total, single, measured)),
            **estimate_fields("slope", _slope(predicted, by_interval)),
            **estimate_fields("correlation", _correlation(predicted, by_interval)),
            # Without an interval, nothing is distinguished.
            covered=sum(not (d.low > 0 or d.high < 0) for d in differences),
        )


def _share(
    timeline: Timeline, total: np.ndarray, single: np.ndarray, measured: Estimate
) -> Estimate:
    change = timeline.changes.measured.sum(axis=0)
    # A share of a change that may be 0 can be any number.
    if any(e.covers(0.0) or math.isnan(e.low) for e in (measured, over_folds(change))):
        return _NOT_KNOWN
    # Numerator and denominator are on the same prompts: computed again together.
    variance, few = 0.0, math.inf
    if single.size:
        variance, few = variance_of_rest(single[:, 0], timeline.steps)
        variance /= change[0] ** 2
    return over_folds(total / change, variance=variance, degrees_of_freedom=few)


def _slope(predicted: Rows, measured: Rows) -> Estimate:
    squares = (predicted**2).sum(axis=0)
    if not (squares > 0).all():
        return _NOT_KNOWN
    return over_folds((predicted * measured).sum(axis=0) / squares)


def _correlation(predicted: Rows, measured: Rows) -> Estimate:
    # Two points are always on a line.
    if len(predicted) < 3:
        return _NOT_KNOWN
    p, m = (x - x.mean(axis=0) for x in (predicted, measured))
    size = np.sqrt((p**2).sum(axis=0) * (m**2).sum(axis=0))
    if not (size > 0).all():
        return _NOT_KNOWN
    r = np.clip((p * m).sum(axis=0) / size, -1 + 1e-15, 1 - 1e-15)
    # Fisher's transformation: ends stay within -1 and 1.
    z = over_folds(np.arctanh(r))
    return Estimate(
        float(r[0]),
        z.standard_error * float(1 - r[0] ** 2),
        math.tanh(z.low),
        math.tanh(z.high),
        z.effective_samples,
        z.prompts,
    )


def _sums(
    timeline: Timeline, objective: str, tokens: dict[str, int]
) -> Iterator[Summed]:
    changes = timeline.changes
    rows = [("part", n, changes.part(n)) for n in changes.parts if n != "updates"]
    rows += [("kind", name, changes.kind(name)) for name in sorted(changes.kinds)]
    for by, name, single in rows:
        total = (single * timeline.steps[:, None]).sum(axis=0)
        yield Summed(
            objective=objective,
            by=by,
            name=name,
            tokens=tokens[name] if by == "kind" else 0,
            **estimate_fields("value", timeline.estimate(total, single)),
        )


def _prompts(whole: Trajectory) -> Iterator[TrainedPrompt]:
    """Yield the prompts of the training, those that drain most entropy first."""
    ordered = sorted(
        whole.prompts.items(), key=lambda pair: pair[1].changes["entropy"][0]
    )
    for name, prompt in ordered:
        yield TrainedPrompt(
            prompt=f"{name:016x}",
            text=prompt.text,
            updates=prompt.updates,
            responses=prompt.responses,
            mean_reward=prompt.reward_sum / prompt.responses,
            **estimate_fields("entropy", over_folds(prompt.changes["entropy"])),
            **estimate_fields("reward", over_folds(prompt.changes["reward"])),
        )


def _concentration(whole: Trajectory) -> Iterator[Concentration]:
    changes = np.stack([p.changes["entropy"] for p in whole.prompts.values()])
    by_fold = held_out_sums(changes)
    sums = by_fold.mean(axis=1)
    drain = min(0.0, float(sums.min()))
    half = int(np.argmax(sums <= drain / 2)) + 1 if drain < 0 else 0
    drained = _NOT_KNOWN
    if half:
        cells = by_fold[half - 1]
        # The mean of the folds with each left out is the value without that fold.
        without = (cells.sum() - cells) / (cells.size - 1)
        drained = over_folds(np.concatenate([[cells.mean()], without]))
    yield Concentration(
        prompts=len(changes),
        half=half,
        drain=drain,
        **estimate_fields("drained", drained),
    )
