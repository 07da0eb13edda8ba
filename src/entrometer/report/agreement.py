"""How well predictions of interventions agree with what was observed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from entrometer.report.comparison import UNITS, Option, Point, points
from entrometer.report.numbers import number, percent
from entrometer.report.read import ComparisonRun
from entrometer.report.table import Table, table
from entrometer.runs.comparison import Outcome


class Agreement(NamedTuple):
    r"""Of predictions $p$ and observations $o$, of one objective.

    $b = \sum p\,o / \sum o^2$ is the slope of the line through 0, and
    $R^2 = 1 - \sum (p - b\,o)^2 / \sum p^2$ what it explains.
    """

    steps: int
    slope: float
    r2: float
    within: int
    """Predictions by the other half that are within the noise of both halves."""
    judged: int
    """Of so many."""

    @property
    def share(self) -> float:
        """Of the judged, those within; NaN where none was judged."""
        return self.within / self.judged if self.judged else math.nan


def trials(point: Point) -> list[Option]:
    """Plain and the remedies that differ from it whose steps were taken."""
    return [o for o in (point.reference, *point.remedies) if o.observed]


def agree(row: Outcome) -> bool | None:
    """Whether the other half predicts what was observed; None where it cannot say.

    The halves are independent, so that the squares of their 95% intervals' arms add up;
    but the tokens of the frontier were chosen by the half that would predict.
    """
    arm = math.hypot(
        row.elsewhere_high - row.elsewhere, row.observed_high - row.observed
    )
    off = abs(row.elsewhere - row.observed)
    if row.chosen or not math.isfinite(off + arm):
        return None
    return off <= arm


def agreement(rows: Sequence[Outcome]) -> Agreement:
    """Slope, R² and coverage over some trials, of one objective."""
    p, o = np.array([(r.predicted, r.observed) for r in rows]).reshape(-1, 2).T
    told = [found for row in rows if (found := agree(row)) is not None]
    slope = float(p @ o / (o @ o)) if o.any() else math.nan
    r2 = 1 - float(np.square(p - slope * o).sum() / (p @ p)) if p.any() else math.nan
    return Agreement(len(rows), slope, r2, sum(told), len(told))


def agreements(runs: Sequence[ComparisonRun]) -> Table | None:
    """A row for each point and objective, and for all points together."""
    found = {p.name: trials(p) for p in points(runs)}
    if len(found) > 1:
        found["all"] = [option for own in found.values() for option in own]
    rows = [
        [
            *(name, objective, number(a.steps), number(a.slope), number(a.r2)),
            f"{a.within} of {a.judged}",
            percent(a.share),
        ]
        for name, own in found.items()
        if own
        for objective in UNITS
        for a in [agreement([option.row(objective) for option in own])]
    ]
    if not rows:
        return None
    return table(
        "Predicted against observed changes under interventions: steps, slope through "
        "0 and the R² of that line; and predictions by the half of the prompts that "
        "does not observe that are within the 95% interval of the difference of "
        "both halves. Steps of one point share its prompts, so that "
        "they agree or disagree together",
        ("subject", "objective", "steps", "slope", "R²", "within", "share"),
        rows,
        words=2,
    )
