"""How well influence predicts what interventions change against plain.

A prediction and an observation on the same prompts share the noise of those prompts and
agree for that reason alone. So one half of the evaluation prompts predicts here, and
the other half observes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.compare.points import UNITS, CompareRun, Option, Point, points
from entrometer.report.numbers import Interval, number, percent
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import LOOKS
from entrometer.report.table import Table, table
from entrometer.report.text import label
from entrometer.runs.tables.compare import Outcome

_WORDS = {True: "yes", False: "no", None: "–"}


class Gain(NamedTuple):
    """Change under an intervention minus plain's, from two halves of the prompts."""

    predicted: Interval
    """Prediction by influence, on the half that does not observe."""
    observed: Interval
    """Observation after the step, on the other half."""

    @property
    def within(self) -> bool | None:
        """Whether the two differ by no more than the 95% noise of both.

        The halves are independent, so the squares of the half-widths of their
        intervals add up. None if a half-width is unknown.
        """
        p, o = self
        arm = math.hypot(p.high - p.value, o.high - o.value)
        off = abs(p.value - o.value)
        return off <= arm if math.isfinite(off + arm) else None


class Agreement(NamedTuple):
    r"""Agreement of predicted gains $p_i$ with observed gains $o_i$.

    $R^2 = 1 - \sum (o_i - p_i)^2 / \sum o_i^2$, with no line fitted: 1 for exact
    predictions, 0 for predicting that every intervention does what plain does, below 0
    for predictions that are worse than that.
    """

    steps: int
    r2: float
    within: int
    """Number of gains whose prediction is within the noise of both halves."""
    judged: int
    """Number of gains whose noise is known in both halves."""

    @property
    def share(self) -> float:
        """Share of the judged gains that are within; NaN if none was judged."""
        return self.within / self.judged if self.judged else math.nan


def trials(point: Point) -> list[Option]:
    """Return the interventions that differ from plain and whose steps were taken.

    The frontier is left out: its tokens were chosen by the half that predicts.
    """
    return [o for o in point.remedies if o.observed and not o.entropy.chosen]


def gain(row: Outcome, plain: Outcome) -> Gain:
    """Return the gain over plain in one objective, predicted and observed."""
    value = row.elsewhere - plain.elsewhere
    # The table has the other half's error of a change, not of a difference. The error
    # of the same prediction on the half that observes stands for it: it is as large.
    low, high = (value + end - row.gain for end in (row.gain_low, row.gain_high))
    return Gain(Interval(value, low, high), Interval.of(row, "observed_gain"))


def gains(point: Point, objective: str) -> list[Gain]:
    """Return each trial's gain over plain in an objective, predicted and observed."""
    plain = point.reference.rows[objective]
    return [gain(option.rows[objective], plain) for option in trials(point)]


def agreement(some: Sequence[Gain]) -> Agreement:
    """Return R² of some gains, and how many predictions are within the noise."""
    p = np.array([g.predicted.value for g in some])
    o = np.array([g.observed.value for g in some])
    r2 = 1 - float(np.square(o - p).sum() / (o @ o)) if o.any() else math.nan
    judged = [w for g in some if (w := g.within) is not None]
    return Agreement(len(some), r2, sum(judged), len(judged))


def agreements(runs: Sequence[CompareRun]) -> Table | None:
    """Return a table of agreement by point and objective, and over all points."""
    compared = [p for p in points(runs) if trials(p)]
    some = {p.name: [p] for p in compared}
    if len(compared) > 1:
        some["all"] = compared
    rows = [
        [
            *(name, objective, number(a.steps), number(a.r2)),
            *(f"{a.within} of {a.judged}", percent(a.share)),
        ]
        for name, subset in some.items()
        for objective in UNITS
        for a in [agreement([g for p in subset for g in gains(p, objective)])]
    ]
    if not rows:
        return None
    return table(
        "Gains over plain, predicted by one half of the prompts and observed "
        "on the other: steps, R² of the unscaled prediction (0 is as good as "
        "predicting no gain), and predictions within the 95% interval of the "
        "difference of both halves. Steps at one minibatch share their prompts, so "
        "that their errors are correlated",
        ("subject", "objective", "steps", "R²", "within", "share"),
        rows,
        label_columns=2,
    )


def predicted(runs: Sequence[CompareRun]) -> Plot | None:
    """Return the plot of predicted against observed gains; None without any step."""
    compared = [p for p in points(runs) if trials(p)]
    if not compared:
        return None
    shown = spread(compared, len(LOOKS))
    return Plot(
        "predicted-observed",
        "Gains over plain, predicted and observed",
        "Gain of each intervention over plain, predicted by one half of "
        "the prompts against observed on the other half, for entropy on the left "
        "and for reward on the right, with 95% intervals and the diagonal; a "
        "marker for each minibatch. Intervals may reach beyond the edge.",
        caption=_caption(compared) + omitted(shown, compared),
        table=table(
            "Gains over plain, entropy in nats per token and reward per "
            "response, with 95% intervals: predicted by the half of the prompts that "
            "does not observe (with the interval of the same prediction on the half "
            "that observes), and observed; whether the two are within the 95% interval "
            "of their difference; and the whole change, as the slope along the step "
            "that AdamW recomputes, times the learning rate, and as observed",
            (
                *("subject", "intervention", "objective", "predicted", "observed"),
                *("within", "whole, recomputed", "whole, observed"),
            ),
            [
                [
                    *(point.name, option.name, objective),
                    *(str(pair.predicted), str(pair.observed), _WORDS[pair.within]),
                    number(option.rows[objective].reformed),
                    str(Interval.of(option.rows[objective], "observed")),
                ]
                for point in compared
                for objective in UNITS
                for option, pair in zip(
                    trials(point), gains(point, objective), strict=True
                )
            ],
            label_columns=3,
        ),
        draw=lambda: _draw(shown),
    )


def _caption(compared: Sequence[Point]) -> str:
    whole = {
        objective: agreement([g for p in compared for g in gains(p, objective)])
        for objective in UNITS
    }
    fits = " and ".join(f"{number(a.r2)} for {name}" for name, a in whole.items())
    shares = " and ".join(
        f"{a.within} of {a.judged} ({percent(a.share)}) for {objective}"
        for objective, a in whole.items()
        if a.judged
    )
    within = f" Predictions are within the 95% noise of both halves in {shares}."
    return (
        "One half of the prompts predicts and the other observes, so the two share no "
        f"noise of prompts. Over {whole['entropy'].steps} steps R² is {fits}; 1 is "
        f"exact and 0 is as good as predicting no gain.{within * bool(shares)} The "
        "frontier, chosen by the half that predicts, is left out."
    )


def _draw(shown: Sequence[Point]) -> Figure:
    figure, axes = draw.canvas(4.2, 1, 2)
    for ax, objective in zip(axes, UNITS, strict=True):
        every = [pair for point in shown for pair in gains(point, objective)]
        for point, look in zip(shown, LOOKS, strict=False):
            pairs = np.array(gains(point, objective), np.float64).transpose(1, 2, 0)
            draw.faint_bars(ax, pairs[1], pairs[0], look.colour, 0.3, 0.6)
            how = {"color": look.colour, "markersize": 4, "alpha": 0.85}
            x, y = pairs[1, 0], pairs[0, 0]
            ax.plot(x, y, look.marker, **how, label=label(point.name, 60))
        marked = np.array([side.value for pair in every for side in pair])
        ends = draw.axis_ends(marked, np.array(every).ravel())
        ax.set(xlim=ends, ylim=ends)
        draw.identity(ax)
        draw.zeros(ax)
        ax.set(
            title=f"gain in {objective}, {UNITS[objective]}",
            xlabel="observed on one half of the prompts",
            ylabel="predicted by the other half",
        )
        draw.few_ticks(ax)
    return draw.with_legend(figure)
