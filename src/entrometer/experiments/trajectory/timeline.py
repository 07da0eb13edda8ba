"""Changes of one objective along a training, as estimates over its intervals."""

# Axes: N intervals, R = 1 + Q: all folds, then without each.

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    Estimate,
    Linearised,
    over_folds,
    variance_of_rest,
)
from entrometer.experiments.trajectory.changes import Changes
from entrometer.experiments.trajectory.plan import TrajectoryPoint

Rows = Float[np.ndarray, "N R"]


class Timeline:
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

        `each` has the change by every measured step; it is empty for a prediction that
        contains all steps, whose error is of the folds alone.
        """
        variance, few = 0.0, math.inf
        if each.size:
            variance, few = variance_of_rest(each[:, 0], self.steps[where])
        return over_folds(total, variance=variance, degrees_of_freedom=few)

    def single_steps(self, part: str) -> np.ndarray:
        """Return the change by every measured step; nothing for `weights`."""
        return np.empty((0, 0)) if part == "weights" else self.changes.part(part)

    def so_far(self, part: str, last: int) -> Estimate:
        """Return the sum of predictions from the first checkpoint to another."""
        if not last:
            return self._nothing()
        total = self.predicted(part)[:last].sum(axis=0)
        return self.estimate(total, self.single_steps(part), slice(last))

    def measured(self, first: int, last: int) -> Estimate:
        """Return the measured change between two checkpoints, paired by prompt."""
        if first == last:
            return self._nothing()
        return _paired(self.changes.levels[first], self.changes.levels[last])

    def _nothing(self) -> Estimate:
        # Exactly 0 from a checkpoint to itself, unless the level is not known.
        zero = 0.0 if math.isfinite(self.changes.levels[0].value) else math.nan
        return Estimate(zero, zero, zero, zero, self.changes.effective[0], 0)


def _paired(before: Linearised, after: Linearised) -> Estimate:
    # Recorded responses with rewards may be to other prompts at another checkpoint.
    prompts = np.union1d(before.prompt, after.prompt)
    return (after.padded(prompts) - before.padded(prompts)).estimate()
