"""How well influence predicts what remedies change against plain Dr-GRPO.

A prediction and an observation on the same prompts share the noise of those prompts and
agree for that reason alone. So one half of the evaluation prompts predicts here, and
the other half observes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Estimate,
    Option,
    Point,
    points,
)
from entrometer.report.numbers import number, percent
from entrometer.report.table import Table, table
from entrometer.runs.tables.compare import Outcome


class Gain(NamedTuple):
    """Change under a remedy less plain's, from two independent halves of prompts."""

    predicted: Estimate
    """By influence, on the half that does not observe."""
    observed: Estimate
    """After the step, on the other half."""

    @property
    def within(self) -> bool | None:
        """Whether the two differ by no more than the 95% noise of both.

        The halves are independent, so the squares of the arms of their intervals add
        up. None where an arm is unknown.
        """
        p, o = self
        arm = math.hypot(p.high - p.value, o.high - o.value)
        off = abs(p.value - o.value)
        return off <= arm if math.isfinite(off + arm) else None


class Agreement(NamedTuple):
    r"""Of gains $p_i$ that were predicted and gains $o_i$ that were observed.

    $R^2 = 1 - \sum (o_i - p_i)^2 / \sum o_i^2$, with no line fitted: 1 for exact
    predictions, 0 for predicting that every remedy does what plain does, less than 0
    for predictions that are worse than that.
    """

    steps: int
    r2: float
    within: int
    """Gains whose prediction is within the noise of both halves."""
    judged: int
    """Gains whose noise is known in both halves."""

    @property
    def share(self) -> float:
        """Share of the judged gains that are within; NaN where none was judged."""
        return self.within / self.judged if self.judged else math.nan


def trials(point: Point) -> list[Option]:
    """Remedies that differ from plain and whose steps were taken.

    The frontier is left out: its tokens were chosen by the half that predicts.
    """
    return [o for o in point.remedies if o.observed and not o.chosen]


def gain(row: Outcome, plain: Outcome) -> Gain:
    """Gain of a remedy over plain at the same point, for the same objective."""
    value = row.elsewhere - plain.elsewhere
    # Only the other half's change has an error of its own in the table. The gain's is
    # taken from the same prediction on the half that observes, which is as large.
    low, high = (value + end - row.gain for end in (row.gain_low, row.gain_high))
    return Gain(
        predicted=Estimate(value, low, high),
        observed=Estimate(
            row.observed_gain, row.observed_gain_low, row.observed_gain_high
        ),
    )


def gains(point: Point, objective: str) -> list[Gain]:
    """Gains of all trials of a point."""
    plain = point.reference.row(objective)
    return [gain(option.row(objective), plain) for option in trials(point)]


def agreement(some: Sequence[Gain]) -> Agreement:
    """R² and coverage over some gains of one objective."""
    p, o = (
        np.array([estimate.value for estimate in side])
        for side in ([g.predicted for g in some], [g.observed for g in some])
    )
    r2 = 1 - float(np.square(o - p).sum() / (o @ o)) if o.any() else math.nan
    judged = [w for g in some if (w := g.within) is not None]
    return Agreement(len(some), r2, sum(judged), len(judged))


def agreements(runs: Sequence[CompareRun]) -> Table | None:
    """A row for each point and objective, and for all points together."""
    compared = [p for p in points(runs) if trials(p)]
    some = {p.name: [p] for p in compared}
    if len(compared) > 1:
        some["all"] = compared
    rows = [
        [
            *(name, objective, number(a.steps), number(a.r2)),
            f"{a.within} of {a.judged}",
            percent(a.share),
        ]
        for name, own in some.items()
        for objective in UNITS
        for a in [agreement([g for p in own for g in gains(p, objective)])]
    ]
    if not rows:
        return None
    return table(
        "Gains of remedies over plain Dr-GRPO, predicted by one half of the prompts "
        "and observed on the other: steps, R² of the prediction as it stands (0 is as "
        "good as predicting no gain), and predictions within the 95% interval of the "
        "difference of both halves. Steps of one point share its prompts, so that "
        "they agree or disagree together",
        ("subject", "objective", "steps", "R²", "within", "share"),
        rows,
        words=2,
    )
