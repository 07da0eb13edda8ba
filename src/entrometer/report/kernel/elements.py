"""Elements of the kernel against the length of the responses."""

import math
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.kernel.subjects import Runs, block_name, kernel_of
from entrometer.report.numbers import number, with_error
from entrometer.report.panels import panels
from entrometer.report.plot import Plot
from entrometer.report.style import LOOKS, legend_above, log_axis, log_x
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import Element, Growth

MOST = 4
POINTS = 2_000
"""Of all panels together."""
Rows = dict[Subject, list[Element]]
Powers = dict[tuple[Subject, str], Growth]


def elements(runs: Runs) -> Plot | None:
    """A panel for each kernel: size against length on log scales, with the power."""
    rows: Rows = {}
    powers: Powers = {}
    for run in runs:
        for row in run.tables.elements:
            if row.length > 0 and math.isfinite(row.value) and row.value != 0:
                rows.setdefault(kernel_of(run, row), []).append(row)
        for power in run.tables.growth:
            powers[kernel_of(run, power), power.block] = power
    if not rows:
        return None
    names = tell_apart(list(dict.fromkeys([*rows, *(s for s, _ in powers)])))
    some = spread(list(rows), MOST)
    return Plot(
        key="elements",
        title="Elements against length",
        caption=_caption(powers) + drawn(some, list(rows)),
        description=(
            "Size of elements of the kernel against the geometric mean of the two "
            "lengths, both on log scales, by block, with the fitted power law. A panel "
            "for each checkpoint and metric."
        ),
        table=table(
            "Power of the size of an element in the length, ± one standard error",
            ("subject", "pairs of", "power", "pairs"),
            [
                [
                    *(names[s], block_name(block)),
                    *(with_error(row.power, row.power_se), number(row.pairs)),
                ]
                for (s, block), row in powers.items()
            ]
            or [["–"] * 4],
            words=2,
        ),
        draw=lambda: _draw({s: rows[s] for s in some}, powers, names),
    )


def _caption(powers: Powers) -> str:
    told = []
    for block in dict.fromkeys(block for _, block in powers):
        own = [row.power for (_, b), row in powers.items() if b == block]
        low, high = number(min(own), 2), number(max(own), 2)
        span = low if low == high else f"{low} to {high}"
        told.append(f"{span} ({block_name(block)})")
    if not told:
        return "On these scales a power law is a line."
    return f"Elements grow with the length to the power {', '.join(told)}."


def _draw(rows: Rows, powers: Powers, names: dict[Subject, str]) -> Figure:
    figure, parts = panels(rows, names)
    for ax, s, own in parts:
        found = {block: row.power for (t, block), row in powers.items() if t == s}
        _panel(ax, spread(own, POINTS // len(rows)), found)
    legend_above(figure)
    return figure


def _panel(ax: Axes, rows: list[Element], powers: dict[str, float]) -> None:
    ax.set_yscale("log")
    blocks = list(dict.fromkeys(row.block for row in rows))
    for block, look in zip(blocks, cycle(LOOKS), strict=False):
        own = [r for r in rows if r.block == block]
        length, size = np.array([(r.length, abs(r.value)) for r in own]).T
        name = label(block_name(block))
        ax.plot(
            length,
            size,
            look.marker,
            color=look.colour,
            alpha=0.4,
            markersize=2.4,
            markeredgewidth=0,
        )
        power = powers.get(block, math.nan)
        ends = np.array([length.min(), length.max()])
        # The fit is through the means of the logarithms.
        level = np.mean(np.log(size)) - power * np.mean(np.log(length))
        fit = np.exp(level + power * np.log(ends))
        ax.plot(
            ends,
            fit,
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker,
            label=name,
        )
    log_x(ax, [r.length for r in rows])
    log_axis(ax.yaxis)
    ax.set(xlabel="length √(TT′), tokens", ylabel="|K|")
