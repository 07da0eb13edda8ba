"""What a token does to entropy against what it does to reward."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from entrometer.report.influence.draining import context
from entrometer.report.influence.updates import (
    Answer,
    InfluenceRun,
    Influences,
    Update,
    influences,
)
from entrometer.report.labels import place_labels
from entrometer.report.numbers import number, percent, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import BLUE, GREY, ON_PAPER
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table
from entrometer.runs.tables.influence import Token

MOST = 4
POINTS = 2_000
"""Of all panels together."""
NAMED = 12
_CORNERS = {
    (1, -1): "drains entropy, buys reward",
    (1, 1): "raises entropy, buys reward",
    (-1, 1): "raises entropy, costs reward",
    (-1, -1): "drains entropy, costs reward",
}
Pair = Float[np.ndarray, "n 2"]


def scatter(runs: Sequence[InfluenceRun]) -> Plot | None:
    """A point a token, the extreme ones by their text."""
    found = influences(runs)
    updates = [u for u in found.updates if len(_values(u)[0])]
    if not updates:
        return None
    some = spread(updates, MOST)
    rows = [
        [update.name, context(answer, place), *_numbers(update, answer.tokens[place])]
        for update in some
        for answer, place in _extreme(update)
    ]
    return Plot(
        key="scatter",
        title="Entropy against reward, token by token",
        caption=_caption(updates) + drawn(some, updates),
        description=(
            "A point for each token: influence on entropy upwards, on reward to the "
            "right, on scales that are linear near zero and logarithmic far from it. "
            "The quarters are named, and the most extreme tokens have their text."
        ),
        table=table(
            f"The most extreme tokens, in brackets in their context: influence "
            f"{found.where} on entropy in nats a token and on reward a response, ± one "
            "standard error",
            ("subject", "token", "on entropy", "on reward"),
            rows,
            words=2,
        ),
        draw=lambda: _draw(some, found),
    )


def _numbers(update: Update, token: Token) -> tuple[str, str]:
    rate = update.rate
    return (
        with_error(rate * token.entropy, rate * token.entropy_se),
        with_error(rate * token.reward, rate * token.reward_se),
    )


def _values(update: Update) -> tuple[Pair, list[tuple[Answer, int]]]:
    """Influence on reward and on entropy of all tokens that have both."""
    which = [(a, i) for a in update.answers for i in range(len(a.tokens))]
    both = update.rate * np.array(
        [(a.tokens[i].reward, a.tokens[i].entropy) for a, i in which], np.float64
    ).reshape(-1, 2)
    known = np.atleast_1d(np.isfinite(both).all(axis=1))
    return both[known], [w for w, k in zip(which, known.tolist(), strict=True) if k]


def _far(values: Pair) -> np.ndarray:
    """Tokens by how far out they are, the furthest first."""
    scale = np.abs(values).mean(axis=0)
    far = (np.abs(values) / np.where(scale > 0, scale, 1.0)).max(axis=1)
    return np.argsort(-far, kind="stable")


def _extreme(update: Update) -> list[tuple[Answer, int]]:
    values, which = _values(update)
    return [which[i] for i in _far(values)[:NAMED]]


def _caption(updates: Sequence[Update]) -> str:
    values = np.concatenate([_values(u)[0] for u in updates])
    trades = (values[:, 0] > 0) & (values[:, 1] < 0)
    drains = values[:, 1] < 0
    drained = values[drains, 1].sum()
    part = values[trades, 1].sum() / drained if drained else 0.0
    return (
        f"{percent(float(trades.mean()))} of the tokens drain entropy and buy reward, "
        f"lower right; they drain {percent(float(part))} of all that is drained. "
        f"{percent(float((drains & (values[:, 0] < 0)).mean()))} drain it and cost "
        "reward as well, lower left."
    )


def _draw(updates: Sequence[Update], found: Influences) -> Figure:
    columns = min(len(updates), 2)
    lines = (len(updates) + 1) // 2
    figure = Figure(figsize=(9.0, (5.6 if columns == 1 else 4.2) * lines))
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for ax in axes[len(updates) :]:
        ax.remove()
    units = found.units
    for ax, update in zip(axes, updates, strict=False):
        _panel(ax, update, POINTS // len(updates), columns)
        if len(updates) > 1:
            ax.set_title(update.name)
        ax.set_xlabel(f"influence on reward, {units['reward']}")
        ax.set_ylabel(f"influence on entropy, {units['entropy']}")
    return figure


def _panel(ax: Axes, update: Update, most: int, columns: int) -> None:
    values, which = _values(update)
    order = _far(values)
    named = order[:NAMED]
    shown = order
    if len(order) > most:
        # The far ones, and as many of the others as there is room for.
        outer, inner = order[: most // 4], order[most // 4 :]
        rng = np.random.default_rng(0)
        kept = rng.choice(inner, most - len(outer), replace=False)
        shown = np.concatenate([outer, kept])
    for axis, column in ((ax.xaxis, values[:, 0]), (ax.yaxis, values[:, 1])):
        size = np.abs(column)
        reach = 3.0 * float(size.max()) or 1.0
        width = float(np.percentile(size, 75)) or reach / 1000
        name = axis.axis_name
        ax.set(**{f"{name}lim": (-reach, reach)})
        getattr(ax, f"set_{name}scale")("asinh", linear_width=width)
        axis.set_major_locator(FixedLocator(_ticks(width, reach)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _: number(x, 1)))
    ax.plot(
        *values[shown].T, "o", color=BLUE, alpha=0.5, markersize=2.6, markeredgewidth=0
    )
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.axvline(0, color=GREY, linewidth=0.8)
    for (x, y), words in _CORNERS.items():
        ax.text(
            *(0.5 + 0.49 * x, 0.5 + 0.485 * y, words),
            transform=ax.transAxes,
            ha="right" if x > 0 else "left",
            va="top" if y > 0 else "bottom",
            fontsize=8.5 if columns == 1 else 7.5,
            style="italic",
            bbox=ON_PAPER,
        )
    texts = [which[i][0].tokens[which[i][1]].text for i in named]
    place_labels(ax, values[named], texts)


def _ticks(width: float, reach: float) -> list[float]:
    """Zero, and at most three powers of ten on each side."""
    powers = range(math.ceil(math.log10(2 * width)), math.floor(math.log10(reach)) + 1)
    sizes = [10.0**p for p in powers][::-1][:: max(1, -(-len(powers) // 3))]
    return [*(-x for x in sizes), 0.0, *sizes]
