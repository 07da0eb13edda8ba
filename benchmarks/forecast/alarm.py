"""Alerts before an entropy collapses: lead times, false alarms and misses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.forecast.series import Training
from entrometer.estimators.collapse import entropy_floor, soonest
from entrometer.estimators.forecast import LEAST_STEPS, forecasts

ALERTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities that the calibration chooses from."""

FALSE_ALARMS = 0.15
"""Share of false alarms that the chosen probability may have."""

_MEAN = 4


@dataclass(frozen=True)
class Outcome:
    """What an alert did in one training."""

    collapse: int | None
    """First step at which the mean of four entropies is below the floor."""
    alert: int | None
    """First step with an alert, before the collapse."""
    steps: int

    @property
    def false(self) -> bool:
        """Whether the training reached 2t after the alert, and its end, above."""
        judged = self.alert is not None and 2 * self.alert <= self.steps
        return judged and self.collapse is None

    @property
    def undecided(self) -> bool:
        """Whether the training ended before the step that the alert is about."""
        return self.alert is not None and self.collapse is None and not self.false

    @property
    def missed(self) -> bool:
        """Whether entropy collapsed without an alert before."""
        return self.collapse is not None and self.alert is None


@dataclass(frozen=True)
class Watched:
    """Probabilities of a collapse by 2t, step by step."""

    training: Training
    floor: float
    probability: dict[int, float]
    collapse: int | None

    def outcome(self, alert: float) -> Outcome:
        """Return what alerts from this probability would have done."""
        end = self.collapse or self.training.steps + 1
        first = (t for t, p in self.probability.items() if p >= alert and t < end)
        return Outcome(self.collapse, next(first, None), self.training.steps)


def watched(training: Training) -> Watched:
    """Return the probabilities that `em.watch` would have seen."""
    floor = entropy_floor(training.entropy)
    mean = np.convolve(training.entropy, np.full(_MEAN, 1 / _MEAN), "valid")
    below = np.flatnonzero(mean < floor)
    probability = {
        t: soonest(forecasts(*training.until(t))).probability_below(floor)
        for t in range(LEAST_STEPS, training.steps + 1)
        # Below the floor it is too late for an alert.
        if training.entropy[t - 1] > floor
    }
    collapse = int(below[0]) + _MEAN if below.size else None
    return Watched(training, floor, probability, collapse)


def chosen(trainings: Sequence[Training]) -> float:
    """Return the lowest probability with few enough false alarms."""
    every = [watched(t) for t in trainings]
    for alert in ALERTS:
        outcomes = [w.outcome(alert) for w in every]
        held = [o for o in outcomes if o.collapse is None and not o.undecided]
        if held and sum(o.false for o in held) <= FALSE_ALARMS * len(held):
            return alert
    return ALERTS[-1]
