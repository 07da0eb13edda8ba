"""Error of sketched kernels against their size."""

import math

from matplotlib.figure import Figure

from entrometer.report.kernel.subjects import Runs, kernel_of
from entrometer.report.numbers import number
from entrometer.report.plot import Plot
from entrometer.report.style import LOOKS, legend_above, log_axis, log_x
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import SketchError

Rows = dict[Subject, list[SketchError]]


def sketches(runs: Runs) -> Plot | None:
    """Measured errors as markers, what theory says as lines."""
    rows: Rows = {}
    for run in runs:
        for row in run.tables.sketches:
            if row.error > 0 and row.m > 0 and math.isfinite(row.error):
                rows.setdefault(kernel_of(run, row), []).append(row)
    if not rows:
        return None
    names = tell_apart(list(rows))
    some = spread(list(rows), len(LOOKS))
    return Plot(
        key="sketches",
        title="Error of a sketch",
        caption=_caption(rows) + drawn(some, list(rows)),
        description=(
            "Root mean square error of an element of the sketched kernel, over the "
            "norms of its two rows, against the number of buckets, both on log scales: "
            "markers are measured, lines are what theory says, of slope one half."
        ),
        table=table(
            "Root mean square error of an element over the norms of its rows",
            ("subject", "buckets", "measured", "expected"),
            [
                [names[s], number(row.m), number(row.error), number(row.expected)]
                for s, own in rows.items()
                for row in own
            ],
        ),
        draw=lambda: _draw({names[s]: rows[s] for s in some}),
    )


def _caption(rows: Rows) -> str:
    ratios = [
        row.error / row.expected
        for own in rows.values()
        for row in own
        if row.expected > 0
    ]
    if not ratios:
        return "An error that falls as 1/√m is a line of slope −½."
    low, high = number(min(ratios), 2), number(max(ratios), 2)
    return (
        "The error falls as 1/√m: it is "
        f"{low if low == high else f'{low} to {high}'} times what theory says."
    )


def _draw(rows: dict[str, list[SketchError]]) -> Figure:
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    ax.set_yscale("log")
    for (name, own), look in zip(rows.items(), LOOKS, strict=False):
        ordered = sorted(own, key=lambda r: r.m)
        x = [r.m for r in ordered]
        error = [r.error for r in ordered]
        ax.plot(x, error, look.marker, color=look.colour, label=label(name))
        expected = [r.expected if r.expected > 0 else math.nan for r in ordered]
        ax.plot(x, expected, color=look.colour, linestyle=look.dash, linewidth=0.9)
    log_x(ax, [float(r.m) for own in rows.values() for r in own])
    log_axis(ax.yaxis)
    ax.set(xlabel="buckets m", ylabel="error over |φ||φ′|")
    if len(rows) > 1:
        legend_above(figure)
    return figure
