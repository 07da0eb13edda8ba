"""Figure: change of reward against change of entropy, with the frontier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from entrometer.report import draw
from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Option,
    Point,
    idle_words,
    points,
)
from entrometer.report.compare.tables import frontier_table
from entrometer.report.labels import lead_labels
from entrometer.report.numbers import Interval
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import BLUE, PAPER, RED, TEAL

MOST = 4
Places = Float[np.ndarray, "_ 2 3"]
"""Change of entropy and of reward, each with its low and high end."""


def frontier(runs: Sequence[CompareRun]) -> Plot | None:
    """One panel per point: interventions, below the best choice of tokens."""
    every = [p for p in points(runs) if any(map(_known, (p.reference, *p.remedies)))]
    if not every:
        return None
    shown = spread(every, MOST)
    return Plot(
        key="frontier",
        title="Reward against entropy: the frontier",
        caption=_caption(every) + idle_words(shown) + omitted(shown, every),
        description=(
            "Change of expected reward upwards, change of entropy to the right, a "
            "panel for each point. A line is the frontier on held-out prompts, with "
            "95% intervals; a dotted one is the frontier by the prompts that chose "
            "its tokens, which is too optimistic. A star is plain Dr-GRPO, a circle "
            "each intervention, with 95% intervals both ways: filled if observed, open "
            "if only predicted. Names are drawn where there is room. Faint lines are "
            "predictions over the strengths of an intervention. Intervals and lines "
            "may reach beyond the edge."
        ),
        table=frontier_table(every),
        draw=lambda: draw.panels({p.name: p for p in shown}, _panel, 4.1),
    )


def _caption(every: Sequence[Point]) -> str:
    words = "Further up is more reward, further right more entropy. "
    if len(every) == 1:
        entropy, reward = (every[0].reference.change(o) for o in UNITS)
        words += (
            f"Plain Dr-GRPO, the star, changes entropy by {entropy} nats per token and "
            f"reward by {reward}. "
        )
    gaps = [
        gap
        for point in every
        for option in point.remedies
        if not option.chosen and (gap := Interval.of(option.reward, "below")).known
    ]
    if gaps:
        under = sum(gap.low > 0 for gap in gaps)
        over = sum(gap.high < 0 for gap in gaps)
        counted = ", counted at each point," if len(every) > 1 else ""
        words += (
            f"Of {len(gaps)} interventions{counted} whose entropy the held-out "
            f"frontier reaches {under} are predicted below it and {over} above it "
            "beyond noise. "
        )
    return words + (
        "The intervals are those of each change by itself; differences from plain have "
        "narrower ones, and a figure of their own."
    )


def _known(option: Option) -> bool:
    return all(option.change(objective).known for objective in UNITS)


def _places(options: Sequence[Option], *, predicted: bool = False) -> Places:
    """Return the changes of options: as they turned out, or all as predicted."""

    def place(option: Option, objective: str) -> Interval:
        if predicted:
            return Interval.of(option.row(objective), "predicted")
        return option.change(objective)

    return np.array(
        [[place(option, objective) for objective in UNITS] for option in options],
        np.float64,
    ).reshape(-1, 2, 3)


def _panel(ax: Axes, point: Point) -> None:
    """Draw the frontier, sweeps over strengths, interventions with names, and plain."""
    held_out = np.array(
        [[Interval.of(p, objective) for objective in UNITS] for p in point.frontier],
        np.float64,
    ).reshape(-1, 2, 3)
    fitted = np.array(
        [(p.fitted_entropy, p.fitted_reward) for p in point.frontier], np.float64
    ).reshape(-1, 2)
    sweeps = [_places(places, predicted=True)[:, :, 0] for places in point.sweeps()]
    plain = _places([o for o in (point.reference,) if _known(o)])
    seen = list(filter(_known, point.remedies))
    remedies = _places(seen)
    for axis in range(2):
        marked = np.concatenate([p[:, axis] for p in (plain, remedies, held_out)])
        other = np.concatenate([places[:, axis] for places in (fitted, *sweeps)])
        ends = draw.axis_ends(marked[:, 0], np.concatenate([marked.ravel(), other]))
        ax.set(**{f"{'xy'[axis]}lim": ends})
    faint: dict[str, Any] = {"alpha": 0.4, "linewidth": 0.8, "markersize": 2}
    for number, places in enumerate(sweeps):
        name = None if number else "predicted over strengths"
        ax.plot(*places.T, ".-", color=BLUE, **faint, label=name)
    if len(fitted):
        dotted: dict[str, Any] = {"color": TEAL, "linestyle": ":", "linewidth": 1.0}
        ax.plot(*fitted.T, **dotted, label="frontier, fitted (optimistic)")
        _bars(ax, held_out, TEAL, 0.35)
        squares: dict[str, Any] = {"color": TEAL, "markersize": 3}
        ax.plot(*held_out[:, :, 0].T, "s-", **squares, label="frontier, held out")
    _bars(ax, remedies, BLUE, 0.3)
    for taken, fill, name in ((True, BLUE, "observed"), (False, PAPER, "predicted")):
        places = remedies[[o.observed == taken for o in seen], :, 0]
        if len(places):
            circle: dict[str, Any] = {"markerfacecolor": fill, "markersize": 5}
            ax.plot(*places.T, "o", color=BLUE, **circle, label=f"intervention, {name}")
    _bars(ax, plain, RED, 0.5)
    ax.plot(*plain[:, :, 0].T, "*", color=RED, markersize=11, label="plain Dr-GRPO")
    # Those far from plain are named first: they are what there is to see.
    order = _far(remedies[:, :, 0], plain[:, :, 0], ax)
    others = np.concatenate([plain[:, :, 0], held_out[:, :, 0]])
    lead_labels(ax, remedies[order, :, 0], [seen[i].name for i in order], others)
    draw.zeros(ax)
    ax.set_xlabel(f"change of entropy, {UNITS['entropy']}")
    ax.set_ylabel(f"change of reward, {UNITS['reward']}")
    draw.few_ticks(ax)


def _bars(ax: Axes, at: Places, colour: str, alpha: float) -> None:
    how = {"elinewidth": 0.7, "capsize": 0, "alpha": alpha}
    draw.cross_bars(ax, at[:, 0].T, at[:, 1].T, fmt="none", ecolor=colour, **how)


def _far(
    at: Float[np.ndarray, "n 2"], plain: Float[np.ndarray, "_ 2"], ax: Axes
) -> list[int]:
    """Return the order of points by distance from plain, the furthest first."""
    spans = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    centre = plain[0] if len(plain) else np.zeros(2)
    away = np.square((at - centre) / spans).sum(axis=1)
    return [int(i) for i in np.argsort(-away, kind="stable")]
