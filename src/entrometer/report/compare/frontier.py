"""The frontier of reward and entropy, and how to get each intervention."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

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
from entrometer.report.labels import lead_labels
from entrometer.report.numbers import MISSING, Interval, number, percent
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import BLUE, PAPER, RED, TEAL
from entrometer.report.table import Table, table
from entrometer.runs.tables.compare import Remedy

MOST = 4
_HEADS = ("intervention", "published", "TRL", "verl", "differences")
_FIELDS = ("settings", "source", "trl", "verl", "differs")
Item = TypeVar("Item")
Places = Float[np.ndarray, "_ 2 3"]
"""Change of entropy and of reward, each with its low and high end."""


def frontier(runs: Sequence[CompareRun]) -> Plot | None:
    """Return the plot of reward against entropy: interventions and the frontier."""
    every = [p for p in points(runs) if any(map(_known, (p.reference, *p.remedies)))]
    if not every:
        return None
    shown = spread(every, MOST)
    return Plot(
        "frontier",
        "Reward against entropy: the frontier",
        "Change of expected reward upwards, change of entropy to the right, a "
        "panel for each minibatch. A line is the frontier on held-out prompts, with "
        "95% intervals; a dotted one is the frontier by the prompts that chose "
        "its tokens, which is too optimistic. A star is plain, a circle "
        "each intervention, with 95% intervals both ways: filled if observed, open "
        "if only predicted. Names are drawn where there is room. Faint lines are "
        "predictions over the strengths of an intervention. Intervals and lines "
        "may reach beyond the edge.",
        caption=_caption(every) + idle_words(shown) + omitted(shown, every),
        table=frontier_table(every),
        draw=lambda: draw.panels({p.name: p for p in shown}, _panel, 4.1),
    )


def _caption(every: Sequence[Point]) -> str:
    words = "Further up is more reward, further right more entropy. "
    if len(every) == 1:
        entropy, reward = (every[0].reference.change(o) for o in UNITS)
        words += (
            f"Plain, the star, changes entropy by {entropy} nats per token and "
            f"reward by {reward}. "
        )
    remedies = (o for p in every for o in p.remedies if not o.entropy.chosen)
    below = [Interval.of(o.rows["reward"], "below") for o in remedies]
    if gaps := [gap for gap in below if gap.known]:
        under = sum(gap.low > 0 for gap in gaps)
        over = sum(gap.high < 0 for gap in gaps)
        counted = ", counted at each minibatch," if len(every) > 1 else ""
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


def _places(items: Iterable[Item], change: Callable[[Item, str], Interval]) -> Places:
    changes = [[change(item, objective) for objective in UNITS] for item in items]
    return np.array(changes, np.float64).reshape(-1, 2, 3)


def _prediction(option: Option, objective: str) -> Interval:
    return Interval.of(option.rows[objective], "predicted")


def _panel(ax: Axes, point: Point) -> None:
    held_out = _places(point.frontier, Interval.of)
    fitted = np.array(
        [(p.fitted_entropy, p.fitted_reward) for p in point.frontier], np.float64
    ).reshape(-1, 2)
    sweeps = [_places(places, _prediction)[:, :, 0] for places in point.sweeps()]
    plain = _places(filter(_known, [point.reference]), Option.change)
    seen = list(filter(_known, point.remedies))
    remedies = _places(seen, Option.change)
    for axis in range(2):
        marked = np.concatenate([p[:, axis] for p in (plain, remedies, held_out)])
        other = np.concatenate([places[:, axis] for places in (fitted, *sweeps)])
        ends = draw.axis_ends(marked[:, 0], np.concatenate([marked.ravel(), other]))
        ax.set(**{f"{'xy'[axis]}lim": ends})
    faint: dict[str, Any] = {"alpha": 0.4, "linewidth": 0.8, "markersize": 2}
    for place, places in enumerate(sweeps):
        name = None if place else "predicted over strengths"
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
    ax.plot(*plain[:, :, 0].T, "*", color=RED, markersize=11, label="plain")
    # Those far from plain are named first: they are what there is to see.
    spans = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    centre = plain[0, :, 0] if len(plain) else np.zeros(2)
    away = np.square((remedies[:, :, 0] - centre) / spans).sum(axis=1)
    order = [int(i) for i in np.argsort(-away, kind="stable")]
    others = np.concatenate([plain[:, :, 0], held_out[:, :, 0]])
    lead_labels(ax, remedies[order, :, 0], [seen[i].name for i in order], others)
    draw.zeros(ax)
    ax.set_xlabel(f"change of entropy, {UNITS['entropy']}")
    ax.set_ylabel(f"change of reward, {UNITS['reward']}")
    draw.few_ticks(ax)


def _bars(ax: Axes, at: Places, colour: str, alpha: float) -> None:
    draw.faint_bars(ax, at[:, 0].T, at[:, 1].T, colour, alpha, 0.7)


def frontier_table(every: Sequence[Point]) -> Table:
    """Return every intervention at every strength, and the frontier at every price."""
    return table(
        "Changes of entropy Δh, nats per token, and of expected reward ΔJ, with 95% "
        "intervals: predicted by influence, and observed after the step if it was "
        "taken, both on the half of the prompts that observes; reward by which a "
        "prediction is below the held-out frontier at its change of entropy; share of "
        "the tokens whose gradient differs from plain, or that the frontier "
        "keeps",
        (
            *("subject", "intervention", "tokens", "predicted Δh", "observed Δh"),
            *("predicted ΔJ", "observed ΔJ", "below the frontier"),
        ),
        [row for point in every for row in _rows(point)],
        label_columns=2,
    )


def _rows(point: Point) -> Iterator[list[str]]:
    for option in point.options:
        yield [
            *(point.name, option.name, percent(option.entropy.changed)),
            *(
                str(Interval.of(option.rows[objective], name))
                for objective in UNITS
                for name in ("predicted", "observed")
            ),
            str(Interval.of(option.rows["reward"], "below")),
        ]
    for place in point.frontier:
        held_out = (Interval.of(place, "entropy"), Interval.of(place, "reward"))
        fitted = (number(place.fitted_entropy), number(place.fitted_reward))
        for name, both in (("held out", held_out), ("as fitted", fitted)):
            title = f"frontier, {name}, price {number(place.price)}"
            entropy, reward = map(str, both)
            changes = (entropy, MISSING, reward, MISSING, MISSING)
            yield [point.name, title, percent(place.kept), *changes]


def remedies(runs: Sequence[CompareRun]) -> Table | None:
    """Return a table of TRL and verl settings at the strengths that were tried."""
    return _settings(
        "How to get each intervention at the strength that was tried: with entrometer "
        "train --intervention, with TRL or verl, and how these differ from entrometer",
        [remedy for remedy, tried in _remedies(runs).items() if tried],
    )


def strengths(runs: Sequence[CompareRun]) -> Table | None:
    """Return a table of TRL and verl settings at strengths that were only predicted."""
    return _settings(
        "How to get each intervention at strengths that were predicted and not tried",
        [remedy for remedy, tried in _remedies(runs).items() if not tried],
    )


def _remedies(runs: Sequence[CompareRun]) -> dict[Remedy, bool]:
    tried: dict[Remedy, bool] = {}
    for run in runs:
        names = {o.settings for o in run.tables.outcomes if o.tried}
        for remedy in run.tables.remedies:
            tried[remedy] = tried.get(remedy, False) or remedy.settings in names
    return tried


def _settings(caption: str, rows: Sequence[Remedy]) -> Table | None:
    if not rows:
        return None
    return Table(
        caption=caption,
        heads=_HEADS,
        rows=tuple(
            tuple(getattr(row, name) or MISSING for name in _FIELDS) for row in rows
        ),
        label_columns=len(_HEADS),
        code=(0, 2, 3),
    )
