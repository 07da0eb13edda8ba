"""Eigenvalues of the kernel beside those of a random one."""

import math
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.kernel.subjects import Runs, kernel_of
from entrometer.report.numbers import number
from entrometer.report.panels import panels
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, legend_above, log_axis, log_x, say
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import Eigenvalue

MOST = 4
_MOST_ROWS = 400
_ROUNDING = 1e-6
"""Of the largest eigenvalue: equal responses make some that are 0 but for it."""
Rows = dict[Subject, list[Eigenvalue]]


def spectrum(runs: Runs) -> Plot | None:
    """A panel for each kernel: eigenvalue against rank, on log scales."""
    rows: Rows = {}
    for run in runs:
        for row in run.tables.eigenvalues:
            if row.value > 0 and math.isfinite(row.value):
                rows.setdefault(kernel_of(run, row), []).append(row)
    if not rows:
        return None
    names = tell_apart(list(rows))
    some = spread(list(rows), MOST)
    every = [(s, row) for s, own in rows.items() for row in own]
    listed = spread(every, _MOST_ROWS)
    fewer = f"; {len(listed):,} of {len(every):,}" if len(listed) < len(every) else ""
    return Plot(
        key="spectrum",
        title="Spectrum of the kernel",
        caption=_caption(rows) + drawn(some, list(rows)),
        description=(
            "Eigenvalues against their rank, both on log scales, by each method, and "
            "the Marchenko-Pastur law of a random kernel with the same trace and "
            "spread. A panel for each checkpoint and metric; eigenvalues below a "
            "millionth of the largest, which are rounding, are left out."
        ),
        table=table(
            f"Eigenvalues, and the quantiles of the Marchenko-Pastur law{fewer}",
            ("subject", "method", "rank", "eigenvalue", "Marchenko-Pastur"),
            [
                [
                    *(names[s], row.method, number(row.rank)),
                    *(number(row.value, 4), number(row.wishart, 4)),
                ]
                for s, row in listed
            ],
            words=2,
        ),
        draw=lambda: _draw({s: rows[s] for s in some}, names),
    )


def _caption(rows: Rows) -> str:
    ratios = [
        row.value / row.wishart
        for own in rows.values()
        for row in own
        if row.rank == 1 and row.wishart > 0
    ]
    if not ratios:
        return "A line on these scales is a power law."
    of = f", in the median of {len(ratios)} kernels" if len(ratios) > 1 else ""
    return (
        f"The largest eigenvalue is {number(median(ratios), 2)} times that of a random "
        f"kernel with the same trace and spread{of}."
    )


def _draw(rows: Rows, names: dict[Subject, str]) -> Figure:
    figure, parts = panels(rows, names)
    for ax, _, own in parts:
        _panel(ax, own)
    legend_above(figure)
    return figure


def _panel(ax: Axes, rows: list[Eigenvalue]) -> None:
    if not rows:
        say(ax, "no eigenvalue above zero")
        return
    ax.set_yscale("log")
    floor = _ROUNDING * max(row.value for row in rows)
    rows = [row for row in rows if row.value > floor]
    methods = list(dict.fromkeys(row.method for row in rows))
    for method, look in zip(methods, LOOKS, strict=False):
        # Hollow ones leave those below them in sight.
        face = look.colour if method == methods[0] else "none"
        own = sorted((r for r in rows if r.method == method), key=lambda r: r.rank)
        ranks, values, random = np.array(
            [(r.rank, r.value, r.wishart) for r in own], np.float64
        ).T
        ax.plot(
            ranks,
            values,
            color=look.colour,
            marker=look.marker,
            markersize=3 if face != "none" else 5,
            markerfacecolor=face,
            linestyle="none",
            label=label(method),
        )
        if (random > 0).any():
            random = np.where(random > 0, random, np.nan)
            ax.plot(ranks, random, "--", color=GREY, label="Marchenko-Pastur")
    log_x(ax, [float(r.rank) for r in rows])
    log_axis(ax.yaxis)
    ax.set(xlabel="rank", ylabel="eigenvalue")
