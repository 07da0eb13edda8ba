"""Rows of the result tables, from what was measured along a training."""

# Axes: N intervals, R = 1 + Q: all folds, then without each.

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    Estimate,
    Linearised,
    held_out_sums,
    over_folds,
    variance_of_rest,
)
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.trajectory.changes import (
    Changes,
    Trajectory,
    read_trajectory,
)
from entrometer.experiments.trajectory.config import TrajectoryConfig
from entrometer.experiments.trajectory.plan import TrajectoryPoint
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
        line = Line(points, changes)
        tables.total.extend(_explained(line, objective))
        tables.curve.extend(_curve(line, objective))
        tables.intervals.extend(_intervals(line, objective))
        tables.sums.extend(_sums(line, objective, whole.tokens))
    tables.concentration.extend(_concentration(whole))
    tables.prompts.extend(_prompts(whole))
    return tables


class Line:
    """Changes of one objective, and the number of steps of each interval."""

    def __init__(self, points: Sequence[TrajectoryPoint], changes: Changes) -> None:
        self.points, self.changes = points, changes
        self.steps = np.diff([float(point.steps) for point in points])

    def predicted(self, part: str) -> Rows:
        """Return the prediction of each interval: of one step, times their number."""
        if part == "weights":
            return np.stack(self.changes.weights)
        return np.asarray(self.changes.part(part) * self.steps[:, None])

    def estimate(
        self, total: np.ndarray, each: np.ndarray, where: slice = slice(None)
    ) -> Estimate:
        """Return a sum over the intervals `where` with the error of unmeasured steps.

        `each` has the change by every measured step, or nothing for a prediction that
        holds all steps.
        """
        variance, few = 0.0, math.inf
        if each.size:
            variance, few = variance_of_rest(each[:, 0], self.steps[where])
        return over_folds(total, variance=variance, degrees_of_freedom=few)

    def single_steps(self, part: str) -> np.ndarray:
        """Return the change by every measured step; nothing for `weights`."""
        return np.empty((0, 0)) if part == "weights" else self.changes.part(part)

    def measured(self, first: int, last: int) -> Estimate:
        """Return the measured change between two checkpoints, paired by prompt."""
        if first == last:
            return Estimate(0.0, 0.0, 0.0, 0.0, self.changes.effective[first], 0)
        return _paired(self.changes.levels[first], self.changes.levels[last])


def _paired(before: Linearised, after: Linearised) -> Estimate:
    # Recorded responses with rewards may be to other prompts at another checkpoint.
    prompts = np.union1d(before.prompt, after.prompt)
    return (after.padded(prompts) - before.padded(prompts)).estimate()


def _curve(line: Line, objective: str) -> Iterator[Level]:
    for i, point in enumerate(line.points):
        so_far = {
            part: line.estimate(
                line.predicted(part)[:i].sum(axis=0), line.single_steps(part), slice(i)
            )
            for part in ("updates", "weights")
        }
        yield Level(
            checkpoint=point.name,
            step=point.steps,
            objective=objective,
            **estimate_fields("value", line.changes.levels[i].estimate()),
            **estimate_fields("change", line.measured(0, i)),
            **estimate_fields("updates", so_far["updates"]),
            **estimate_fields("weights", so_far["weights"]),
            prompts=line.changes.levels[i].prompt.size,
            responses=line.changes.effective[i],
        )


def _intervals(line: Line, objective: str) -> Iterator[IntervalChange]:
    for i, point in enumerate(line.points[:-1]):
        assert point.influenced is not None
        measured = line.measured(i, i + 1)
        for part in (*line.changes.parts, "weights"):
            predicted = line.predicted(part)[i]
            single, here = line.single_steps(part), slice(i, i + 1)
            difference = _NOT_KNOWN
            if part in ("updates", "weights"):
                apart = predicted - line.changes.measured[i]
                difference = line.estimate(apart, single, here)
            yield IntervalChange(
                checkpoint=point.name,
                step=point.steps,
                steps=int(line.steps[i]),
                learning_rate=point.influenced.learning_rate,
                objective=objective,
                part=part,
                **estimate_fields("predicted", line.estimate(predicted, single, here)),
                **estimate_fields("measured", measured),
                **estimate_fields("difference", difference),
            )


def _explained(line: Line, objective: str) -> Iterator[Explained]:
    first, last = line.points[0], line.points[-1]
    by_interval = line.changes.measured
    measured = line.measured(0, len(line.points) - 1)
    for prediction in ("updates", "weights"):
        predicted, single = line.predicted(prediction), line.single_steps(prediction)
        total = predicted.sum(axis=0)
        covered = sum(
            line.estimate(apart, single, slice(i, i + 1)).covers(0.0)
            for i, apart in enumerate(predicted - by_interval)
        )
        yield Explained(
            objective=objective,
            prediction=prediction,
            first=first.name,
            last=last.name,
            steps=last.steps - first.steps,
            updates=len(line.steps),
            **estimate_fields("predicted", line.estimate(total, single)),
            **estimate_fields("measured", measured),
            **estimate_fields("share", _share(line, total, single, measured)),
            **estimate_fields("slope", _slope(predicted, by_interval)),
            **estimate_fields("correlation", _correlation(predicted, by_interval)),
            covered=covered,
        )


def _share(
    line: Line, total: np.ndarray, single: np.ndarray, measured: Estimate
) -> Estimate:
    change = line.changes.measured.sum(axis=0)
    # A share of a change that may be 0 can be any number.
    if any(e.covers(0.0) or math.isnan(e.low) for e in (measured, over_folds(change))):
        return _NOT_KNOWN
    # Numerator and denominator are on the same prompts: computed again together.
    variance, few = 0.0, math.inf
    if single.size:
        variance, few = variance_of_rest(single[:, 0], line.steps)
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


def _sums(line: Line, objective: str, tokens: dict[str, int]) -> Iterator[Summed]:
    changes = line.changes
    rows = [("part", n, changes.part(n)) for n in changes.parts if n != "updates"]
    rows += [("kind", name, changes.kind(name)) for name in sorted(changes.kinds)]
    for by, name, single in rows:
        total = (single * line.steps[:, None]).sum(axis=0)
        yield Summed(
            objective=objective,
            by=by,
            name=name,
            tokens=tokens[name] if by == "kind" else 0,
            **estimate_fields("value", line.estimate(total, single)),
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
