"""What influence predicts of interventions against what they did."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.agreement import agree, agreement, trials
from entrometer.report.comparison import UNITS, Option, estimate, points
from entrometer.report.curves import drawn, spread
from entrometer.report.figures.comparison.axes import axis_ends
from entrometer.report.figures.panels import draw_identity
from entrometer.report.numbers import number, percent, with_interval
from entrometer.report.plot import Plot
from entrometer.report.read import ComparisonRun
from entrometer.report.style import GREY, LOOKS, Look, arms, legend_above
from entrometer.report.table import table
from entrometer.report.text import label

_WORDS = {True: "yes", False: "no", None: "–"}
Trials = dict[str, list[Option]]
"""By point."""


def predicted(runs: Sequence[ComparisonRun]) -> Plot | None:
    """A point for each step that was taken, with the diagonal."""
    found = {p.name: own for p in points(runs) if (own := trials(p))}
    if not found:
        return None
    some = spread(list(found), len(LOOKS))
    every = [option for own in found.values() for option in own]
    return Plot(
        key="predicted-observed",
        title="Interventions, predicted and observed",
        caption=_caption(every) + drawn(some, list(found)),
        description=(
            "Predicted against observed change that the step of each intervention "
            "makes, for entropy on the left and for reward on the right, with 95% "
            "intervals, the diagonal and, dashed, the slope through zero; a marker for "
            "each point. An arm that meets the edge goes on."
        ),
        table=table(
            "Changes of entropy, nats a token, and of reward a response, with 95% "
            "intervals: predicted on the prompts that observe, and observed; the "
            "slope along the step that AdamW forms anew, times the learning rate; "
            "predicted on the other half, and whether that is within the 95% interval "
            "of the difference of both halves",
            (
                *("subject", "intervention", "objective", "predicted", "observed"),
                *("formed anew", "other half", "within"),
            ),
            [
                [
                    *(name, option.name, objective),
                    with_interval(*estimate(row, "predicted")),
                    with_interval(*estimate(row, "observed")),
                    number(row.reformed),
                    with_interval(*estimate(row, "elsewhere")),
                    _WORDS[agree(row)],
                ]
                for name, own in found.items()
                for option in own
                for objective in UNITS
                for row in [option.row(objective)]
            ],
            words=3,
        ),
        draw=lambda: _draw({name: found[name] for name in some}),
    )


def _caption(options: Sequence[Option]) -> str:
    whole = {
        objective: agreement([o.row(objective) for o in options]) for objective in UNITS
    }
    slopes = " and ".join(
        f"{number(a.slope, 3)} for {objective} (R²\u00a0=\u00a0{number(a.r2, 3)})"
        for objective, a in whole.items()
    )
    told = (
        f"Over {len(options)} steps the slope through zero of what is predicted "
        f"against what is observed is {slopes}."
    )
    shares = [
        f"{a.within} of {a.judged} ({percent(a.share)}) for {objective}"
        for objective, a in whole.items()
        if a.judged
    ]
    if not shares:
        return told
    return (
        f"{told} Predictions by the other half of the prompts, which are independent "
        f"of the observation, are within its 95% noise and their own in "
        f"{' and '.join(shares)}; the frontier is left out, for it was chosen there."
    )


def _draw(found: Trials) -> Figure:
    figure = Figure(figsize=(9.0, 4.2))
    axes = figure.subplots(1, 2)
    every = [option for own in found.values() for option in own]
    for ax, objective in zip(axes, UNITS, strict=True):
        for (name, own), look in zip(found.items(), LOOKS, strict=False):
            _points(ax, own, objective, look, name)
        both = [_estimates(every, objective, w) for w in ("observed", "predicted")]
        marked = np.concatenate([estimates[0] for estimates in both])
        ends = axis_ends(marked, np.concatenate(both, axis=None))
        ax.set(xlim=ends, ylim=ends)
        draw_identity(ax)
        slope = agreement([option.row(objective) for option in every]).slope
        ax.plot(
            *(ends, slope * np.array(ends), "--"),
            color=GREY,
            linewidth=0.9,
            label="slope through 0",
        )
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        unit = UNITS[objective]
        ax.set(title=objective, xlabel=f"observed, {unit}", ylabel=f"predicted, {unit}")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    legend_above(figure)
    return figure


def _estimates(
    options: Sequence[Option], objective: str, which: str
) -> Float[np.ndarray, "3 n"]:
    """Values, and the low and high ends of their intervals."""
    rows = [estimate(o.row(objective), which) for o in options]
    return np.array(rows, np.float64).T


def _points(
    ax: Axes, options: Sequence[Option], objective: str, look: Look, name: str
) -> None:
    x, *xs = _estimates(options, objective, "observed")
    y, *ys = _estimates(options, objective, "predicted")
    ax.errorbar(
        *(x, y, arms(y, *ys), arms(x, *xs)),
        fmt="none",
        ecolor=look.colour,
        elinewidth=0.6,
        capsize=0,
        alpha=0.3,
    )
    how: dict[str, Any] = {"color": look.colour, "markersize": 4, "alpha": 0.85}
    ax.plot(x, y, look.marker, **how, label=label(name, 60))
