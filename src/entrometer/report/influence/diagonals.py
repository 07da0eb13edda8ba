"""How much of the batch's slope a diagonal kernel would carry."""

import math
from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from entrometer.report.bars import LOOKS, Bar, draw_bars
from entrometer.report.influence.updates import InfluenceRun, subject
from entrometer.report.numbers import number, percent
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.runs.tables.influence import Diagonal

_WORDS = {
    "self": "a response and itself",
    "prompt": "others to the same prompt",
    "other": "responses to other prompts",
}
Rows = dict[Subject, dict[str, Diagonal]]


def diagonals(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Shares of the blocks."""
    rows: Rows = {}
    for run in runs:
        for row in run.tables.diagonals:
            rows.setdefault(subject(run, row), {})[row.block] = row
    rows = {s: own for s, own in rows.items() if math.isfinite(_whole(own))}
    if not rows:
        return None
    names = tell_apart(list(rows))
    some = spread(list(rows), len(LOOKS))
    return Plot(
        key="diagonals",
        title="What a diagonal kernel would carry",
        caption=_caption(rows) + drawn(some, list(rows)),
        description=(
            "Bars: share of the batch's slope of entropy that comes from pairs of a "
            "response with itself, with others to the same prompt and with responses "
            "to other prompts. There are no intervals."
        ),
        table=table(
            "Sums over pairs of the update batch, per unit learning rate, and their "
            "shares",
            ("subject", "pairs of", "sum", "share", "pairs"),
            [
                [
                    *(names[s], _WORDS.get(row.block, row.block), number(row.value)),
                    *(percent(row.value / _whole(own)), number(row.pairs)),
                ]
                for s, own in rows.items()
                for row in own.values()
            ],
            words=2,
        ),
        draw=lambda: _draw({names[s]: rows[s] for s in some}),
    )


def _whole(own: dict[str, Diagonal]) -> float:
    return sum(row.value for row in own.values()) or math.nan


def _caption(rows: Rows) -> str:
    shares = [own["self"].value / _whole(own) for own in rows.values() if "self" in own]
    if not shares:
        return "Shares add up to 100%; below zero is what works against the rest."
    middle = f", in the median of {len(shares)} updates" if len(shares) > 1 else ""
    return (
        f"Pairs of a response with itself make {percent(median(shares))} of the "
        f"batch's slope{middle}; a diagonal kernel would have that alone."
    )


def _draw(rows: dict[str, dict[str, Diagonal]]) -> Figure:
    blocks = list(dict.fromkeys(b for own in rows.values() for b in own))
    each = 0.3 + 0.14 * (len(rows) - 1)
    figure = Figure(figsize=(9.0, max(1.8, 1.2 + each * len(blocks))))
    ax = figure.subplots()
    series = {
        name: {
            _WORDS.get(b, b): Bar(100 * row.value / _whole(own), math.nan, math.nan)
            for b, row in own.items()
        }
        for name, own in rows.items()
    }
    draw_bars(ax, [_WORDS.get(b, b) for b in blocks], series)
    ax.set_xlabel("share of the batch's slope, %")
    if len(rows) > 1:
        legend_above(figure)
    return figure
