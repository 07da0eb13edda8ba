"""Tokens and responses that lower entropy most, and a figure against reward."""

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from entrometer.report import draw
from entrometer.report.influence.updates import (
    OBJECTIVES,
    Answer,
    InfluenceRun,
    Influences,
    Update,
    influences,
)
from entrometer.report.labels import place_labels
from entrometer.report.numbers import number, percent, with_error
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import BLUE, ON_PAPER, is_narrow
from entrometer.report.table import Table, table
from entrometer.runs.tables.influence import Token

_LISTED = 12
"""Rows of one update; all updates together have at most three times as many."""
_AROUND = 4
"""Tokens of context on each side of a token."""
_SUBJECT = ("run", "checkpoint", "update")
_INFLUENCE = ("on entropy", "share", "on reward")
_PANELS = 4
_POINTS = 2_000
"""Points of all panels together."""
_LABELLED = 12
"""Tokens of a panel that are labelled with their text."""
_CORNERS = {
    (1, -1): "lowers entropy, raises reward",
    (1, 1): "raises entropy and reward",
    (-1, 1): "raises entropy, lowers reward",
    (-1, -1): "lowers entropy and reward",
}
Pair = Float[np.ndarray, "n 2"]


@runtime_checkable
class Written(Protocol):
    """A token as text."""

    @property
    def text(self) -> str:
        """The token decoded alone."""


def draining_tokens(runs: Sequence[InfluenceRun]) -> Table | None:
    """Return a table of the tokens that lower entropy most; None if none lowers it."""
    influence = influences(runs)
    rows = []
    for update in influence.updates:
        every = [
            (update.rate * t.entropy, place, answer)
            for answer in update.answers
            for place, t in enumerate(answer.tokens)
            if t.entropy < 0
        ]
        every.sort(key=lambda item: item[0])
        decrease = math.fsum(value for value, _, _ in every)
        for value, place, answer in every[: _each(influence)]:
            token = answer.tokens[place]
            entropy, reward = _numbers(update, token)
            share = percent(value / decrease)
            facts = (number(token.S), number(token.H), number(token.advantage, 2))
            labels = (context(answer.tokens, place), f"{answer.number}, {place + 1}")
            rows.append([*update.subject[:3], *labels, entropy, share, reward, *facts])
    caption = (
        f"The tokens that lower entropy most, in brackets in their context. "
        f"Influence {influence.rates.where}, on entropy in nats per token and on "
        "reward per response, ± one standard error; share of what all tokens that "
        "lower entropy take from it; log-probability S and entropy H in nats"
    )
    heads = (*_SUBJECT, "token", "response, place", *_INFLUENCE, "S", "H", "advantage")
    return table(caption, heads, rows, label_columns=4) if rows else None


def draining_responses(runs: Sequence[InfluenceRun]) -> Table | None:
    """Return a table of the responses that lower entropy most; None if none does."""
    influence = influences(runs)
    rows = []
    for update in influence.updates:
        every = [a for a in update.answers if a.influence["entropy"].value < 0]
        every.sort(key=lambda a: a.influence["entropy"].value)
        decrease = math.fsum(a.influence["entropy"].value for a in every)
        for answer in every[: _each(influence)]:
            entropy, reward = answer.influence["entropy"], answer.influence["reward"]
            labels = (
                cut(answer.text, 120),
                cut(answer.prompt, 120),
                str(answer.number),
            )
            share = percent(entropy.value / decrease)
            both = (with_error(*entropy), share, with_error(*reward))
            facts = (answer.reward, answer.advantage, len(answer.tokens))
            cells = (number(x, d) for x, d in zip(facts, (3, 2, 3), strict=True))
            rows.append([*update.subject[:3], *labels, *both, *cells])
    caption = (
        f"The responses that lower entropy most. Influence {influence.rates.where}, "
        "summed over the tokens, on entropy in nats per token and on reward per "
        "response, ± one standard error; share of what all responses that lower "
        "entropy take from it"
    )
    last = ("reward", "advantage", "tokens")
    heads = (*_SUBJECT, "response", "prompt", "number", *_INFLUENCE, *last)
    return table(caption, heads, rows, label_columns=5) if rows else None


def context(tokens: Sequence[Written], place: int) -> str:
    """Return a token in brackets between the tokens around it."""
    # With what a tool wrote between them.
    before = [cut(t.context, 60) if isinstance(t, Token) else "" for t in tokens]
    texts = [b + t.text for b, t in zip(before, tokens, strict=True)]
    start, end = max(0, place - _AROUND), place + 1 + _AROUND
    left = "".join([*texts[start:place], before[place]])
    right = "".join(texts[place + 1 : end])
    first, last = "…" * (start > 0), "…" * (end < len(texts))
    return f"{first}{left}[{cut(tokens[place].text, 60)}]{right}{last}"


def cut(text: str, length: int) -> str:
    """Return a text of at most `length` characters, ending in … if it was cut."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _each(influence: Influences) -> int:
    return max(3, min(_LISTED, 3 * _LISTED // len(influence.updates)))


def scatter(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Return the plot of each token's influence on entropy against that on reward."""
    influence = influences(runs)
    updates = [u for u in influence.updates if len(_values(u)[0])]
    if not updates:
        return None
    some = spread(updates, _PANELS)
    rows = []
    for update in some:
        values, which = _values(update)
        for answer, place in (which[i] for i in _far(values)[:_LABELLED]):
            both = _numbers(update, answer.tokens[place])
            rows.append([update.name, context(answer.tokens, place), *both])
    return Plot(
        "scatter",
        "Entropy against reward, token by token",
        "Each point is a token: influence on entropy upwards, on reward to the "
        "right, on scales that are linear near zero and logarithmic far from it. "
        "The quarters are named, and the most extreme tokens have their text.",
        caption=_caption(updates) + omitted(some, updates),
        table=table(
            f"The most extreme tokens, in brackets in their context: influence "
            f"{influence.rates.where} on entropy in nats per token and on reward per "
            "response, ± one standard error",
            ("subject", "token", "on entropy", "on reward"),
            rows,
            label_columns=2,
        ),
        draw=lambda: _draw(some, influence),
    )


def _numbers(update: Update, token: Token) -> tuple[str, str]:
    entropy, reward = (
        with_error(*(update.rate * getattr(token, n) for n in (name, f"{name}_se")))
        for name in OBJECTIVES
    )
    return entropy, reward


def _values(update: Update) -> tuple[Pair, list[tuple[Answer, int]]]:
    """Return the influence on reward and on entropy of all tokens that have both."""
    which = [(a, i) for a in update.answers for i in range(len(a.tokens))]
    pairs = [(a.tokens[i].reward, a.tokens[i].entropy) for a, i in which]
    both = update.rate * np.array(pairs, np.float64).reshape(-1, 2)
    known = np.atleast_1d(np.isfinite(both).all(axis=1))
    return both[known], [w for w, k in zip(which, known.tolist(), strict=True) if k]


def _far(values: Pair) -> np.ndarray:
    """Return the order of tokens by distance from zero, the furthest first."""
    scale = np.abs(values).mean(axis=0)
    far = (np.abs(values) / np.where(scale > 0, scale, 1.0)).max(axis=1)
    return np.argsort(-far, kind="stable")


def _caption(updates: Sequence[Update]) -> str:
    values = np.concatenate([_values(u)[0] for u in updates])
    trades = (values[:, 0] > 0) & (values[:, 1] < 0)
    lower = values[:, 1] < 0
    decrease = values[lower, 1].sum()
    part = values[trades, 1].sum() / decrease if decrease else 0.0
    return (
        f"{percent(float(trades.mean()))} of the tokens lower entropy and raise "
        f"reward, lower right: {percent(float(part))} of all decreases of entropy. "
        f"{percent(float((lower & (values[:, 0] < 0)).mean()))} lower both, lower left."
    )


def _draw(updates: Sequence[Update], influence: Influences) -> Figure:
    columns, lines = min(len(updates), 2), (len(updates) + 1) // 2
    height = 4.2 if columns == 2 or is_narrow() else 5.6
    figure, axes = draw.canvas(height * lines, lines, columns, squeeze=False)
    axes = axes.flatten()
    for ax in axes[len(updates) :]:
        ax.remove()
    units = influence.rates.units
    # A narrow figure is a second copy on the page, and has room for fewer points.
    points = _POINTS // (2 if is_narrow() else 1)
    for ax, update in zip(axes, updates, strict=False):
        _panel(ax, update, points // len(updates), columns)
        if len(updates) > 1:
            ax.set_title(update.name)
        ax.set_xlabel(f"influence on reward, {units['reward']}")
        ax.set_ylabel(f"influence on entropy, {units['entropy']}")
    return figure


def _panel(ax: Axes, update: Update, most: int, columns: int) -> None:
    values, which = _values(update)
    order = _far(values)
    named = order[:_LABELLED]
    shown = order
    if len(order) > most:
        # A plain sample would lose the few extreme tokens that the figure is about.
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
    dots: dict[str, Any] = {"alpha": 0.5, "markersize": 2.6, "markeredgewidth": 0}
    ax.plot(*values[shown].T, "o", color=BLUE, **dots)
    draw.zeros(ax, 0.8)
    how: dict[str, Any] = {"style": "italic", "bbox": ON_PAPER}
    how["fontsize"] = 8.5 if columns == 1 else 7.5
    for (x, y), words in _CORNERS.items():
        place = (0.5 + 0.49 * x, 0.5 + 0.485 * y)
        ha, va = "right" if x > 0 else "left", "top" if y > 0 else "bottom"
        ax.text(*place, words, transform=ax.transAxes, ha=ha, va=va, **how)
    texts = [which[i][0].tokens[which[i][1]].text for i in named]
    place_labels(ax, values[named], texts)


def _ticks(width: float, reach: float) -> list[float]:
    """Return zero and at most three powers of ten on each side."""
    powers = range(math.ceil(math.log10(2 * width)), math.floor(math.log10(reach)) + 1)
    sizes = [10.0**p for p in powers][::-1][:: max(1, -(-len(powers) // 3))]
    return [*(-x for x in sizes), 0.0, *sizes]
