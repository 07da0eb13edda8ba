"""Measurements of the Fisher kernel on a report page: elements, spectrum, sketches."""

import math
from collections.abc import Sequence
from itertools import cycle
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.cells import Cell
from entrometer.report.kernel_answer import answer
from entrometer.report.kernel_predictions import predictions
from entrometer.report.kinds import FinishedRun, PageParts, Section
from entrometer.report.numbers import number, percent, span
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    RowsFigure,
    Subject,
    by_subject,
    distinct_names,
    grouped,
    omitted,
    spread,
)
from entrometer.report.style import BAR_LOOKS, GREY, LOOKS
from entrometer.report.table import Table, columns_table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import (
    Block,
    Eigenvalue,
    Element,
    Growth,
    KernelTables,
    SketchError,
    Whole,
)

Runs = Sequence[FinishedRun[KernelTables]]
PAIRS = {
    "self": "a response and itself",
    "prompt": "others to the same prompt",
    "other": "responses to other prompts",
}
"""Which pairs of responses a block has."""
MOST = 4
POINTS = 2_000
"""Points of all panels together."""
_HEADS = ("run", "checkpoint", "metric")
_MOST_ROWS = 400
_ROUNDING = 1e-6
"""Share of the largest eigenvalue below which others are rounding: two equal responses
make an eigenvalue that would be 0 in exact arithmetic."""
_QUANTITIES = {"kernel": "kernel K", "cosine": "cosine"}


def kernel_of(
    run: FinishedRun[KernelTables],
    row: Block | Eigenvalue | Element | Growth | SketchError | Whole,
) -> Subject:
    """Return which kernel a row is of: a checkpoint under a metric."""
    return Subject(run.name, row.checkpoint, row.metric, "")


def whole_kernels(runs: Runs) -> Table | None:
    """Return a table of each kernel's trace, effective rank, noise scale and others."""
    columns: dict[str, Cell] = {
        "step": cells.number("step"),
        "responses": cells.number("responses"),
        "prompts": cells.number("prompts"),
        "parameters": lambda row: f"{row.parameters:,}",
        "trace": cells.number("trace"),
        "effective rank": cells.number("effective_rank"),
        "off diagonal": cells.percent("off_diagonal"),
        "noise scale": cells.number("noise_scale"),
        "95% interval": cells.ends("noise_scale"),
        "seconds": cells.number("seconds"),
    }
    caption = (
        "The kernel of each checkpoint and metric: trace, effective rank (Σλ)²/Σλ², "
        "share of the squared elements that is off the diagonal, the noise scale in "
        "prompts with its 95% interval, and the seconds that computing it took"
    )
    rows = [(kernel_of(run, row)[:3], row) for run in runs for row in run.tables.whole]
    return columns_table(caption, _HEADS, columns, rows, 3) if rows else None


def blocks(runs: Runs) -> Plot | None:
    """Return the plot of mean kernel and cosine by kind of pair; None without rows."""
    rows = [(kernel_of(run, row), row) for run in runs for row in run.tables.blocks]
    if not rows:
        return None
    places = list(dict.fromkeys((s.run, s.checkpoint) for s, _ in rows))
    shown = spread(places, len(BAR_LOOKS))
    several = len({run for run, _ in places}) > 1
    series = {place: ", ".join(place if several else place[1:]) for place in shown}
    columns: dict[str, Cell] = {
        "quantity": cells.text("quantity"),
        "pairs of": pairs_of,
        "mean": cells.error("mean"),
        "95% interval": cells.ends("mean"),
        "root mean square": cells.number("size"),
        "pairs": cells.number("pairs"),
        "responses": cells.number("responses"),
        "prompts": cells.number("prompts"),
    }
    return Plot(
        "kernel-blocks",
        "Kernel by what a pair shares",
        "Bars with 95% intervals: mean element of the kernel on the left and mean "
        "cosine on the right, of a response with itself, with others to the same "
        "prompt and with responses to other prompts; a row for each metric.",
        caption=_blocks_caption([row for _, row in rows]) + omitted(shown, places),
        table=columns_table(
            "Mean over the pairs of a block ± one standard error clustered by prompt, "
            "with 95% interval, and the root of the mean square",
            _HEADS,
            columns,
            [(s[:3], row) for s, row in rows],
            label_columns=5,
        ),
        draw=lambda: _draw_blocks(
            grouped((series[s[:2]], row) for s, row in rows if s[:2] in series)
        ),
    )


def pairs_of(row: Block | Growth) -> str:
    """Return which pairs a block has, in words."""
    return PAIRS.get(row.block, row.block)


def _blocks_caption(rows: Sequence[Block]) -> str:
    parts = []
    cosines = [row for row in rows if row.quantity == "cosine"]
    for metric, subset in grouped((row.metric, row) for row in cosines).items():
        means = grouped((row.block, row.mean) for row in subset)
        if means.keys() >= {"prompt", "other"}:
            same, other = (percent(median(means[b])) for b in ("prompt", "other"))
            parts.append(f"{same} and {other} under {metric}")
    if not parts:
        return "The longer a bar, the more a step on one response moves the other."
    return (
        "Responses to the same prompt and to other prompts have a mean cosine of "
        f"{', '.join(parts)}."
    )


def _draw_blocks(series: dict[str, list[Block]]) -> Figure:
    rows = [row for subset in series.values() for row in subset]
    metrics = list(dict.fromkeys(row.metric for row in rows))[:4]
    quantities = [q for q in _QUANTITIES if any(row.quantity == q for row in rows)]
    names = list(dict.fromkeys(map(pairs_of, rows)))
    height = 0.9 + (0.3 + 0.14 * (len(series) - 1)) * len(names)
    shape = (len(metrics), len(quantities))
    figure, axes = draw.canvas(0.5 + height * len(metrics), *shape, squeeze=False)
    for line, metric in zip(axes, metrics, strict=True):
        for ax, quantity in zip(line, quantities, strict=True):
            which = {"metric": metric, "quantity": quantity}
            bars = draw.interval_series(series, pairs_of, "mean", **which)
            draw.bars(ax, names, bars)
            draw.few_ticks(ax)
            ax.set_xlabel(f"mean {_QUANTITIES[quantity]}, {label(metric)}")
        for ax in line[1:]:
            draw.hide_row_names(ax)
    return draw.with_legend(figure, len(series) > 1)


def elements(runs: Runs) -> Plot | None:
    """Return the plot of kernel elements against response length; None without any."""
    rows: RowsBySubject[Element] | None = by_subject(
        (
            (kernel_of(run, row), row)
            for run in runs
            for row in run.tables.elements
            if row.length > 0 and math.isfinite(row.value) and row.value != 0
        ),
        MOST,
    )
    if not rows:
        return None
    powers = [(kernel_of(run, row), row) for run in runs for row in run.tables.growth]
    names = distinct_names(list(dict.fromkeys([*rows.rows, *(s for s, _ in powers)])))
    drawn = spread(list(rows.rows), MOST)
    shown = {
        names[s]: (
            spread(rows.rows[s], POINTS // len(drawn)),
            {row.block: row.power for t, row in powers if t == s},
        )
        for s in drawn
    }
    columns: dict[str, Cell] = {
        "pairs of": pairs_of,
        "power": cells.error("power"),
        "pairs": cells.number("pairs"),
    }
    return Plot(
        "elements",
        "Elements against length",
        "Size of elements of the kernel against the geometric mean of the two "
        "lengths, both on log scales, by block, with the fitted power law. A panel "
        "for each checkpoint and metric.",
        caption=_elements_caption([row for _, row in powers]) + rows.omitted,
        table=columns_table(
            "Power of the size of an element in the length, ± one standard error",
            ("subject",),
            columns,
            [((names[s],), row) for s, row in powers],
            label_columns=2,
        ),
        draw=lambda: draw.panels(shown, _panel),
    )


def _elements_caption(rows: Sequence[Growth]) -> str:
    powers = grouped((pairs_of(row), row.power) for row in rows)
    if not powers:
        return "On these scales a power law is a line."
    parts = [f"{span(subset)} ({name})" for name, subset in powers.items()]
    return f"Elements grow with the length to the power {', '.join(parts)}."


def _panel(ax: Axes, shown: tuple[list[Element], dict[str, float]]) -> None:
    rows, powers = shown
    ax.set_yscale("log")
    blocks = grouped((row.block, row) for row in rows).items()
    for (block, subset), look in zip(blocks, cycle(LOOKS), strict=False):
        length, size = np.array([(r.length, abs(r.value)) for r in subset]).T
        dots: dict[str, Any] = {"alpha": 0.4, "markersize": 2.4, "markeredgewidth": 0}
        ax.plot(length, size, look.marker, color=look.colour, **dots)
        power = powers.get(block, math.nan)
        ends = np.array([length.min(), length.max()])
        # A least-squares line on log scales goes through the means of the logarithms.
        level = np.mean(np.log(size)) - power * np.mean(np.log(length))
        fit = np.exp(level + power * np.log(ends))
        ax.plot(ends, fit, **look.line, label=label(PAIRS.get(block, block)))
    draw.log_x(ax, [r.length for r in rows])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="length √(TT′), tokens", ylabel="|K|")


def _spectrum_caption(rows: RowsBySubject[Eigenvalue]) -> str:
    ratios = [r.value / r.wishart for r in rows.every if r.rank == 1 and r.wishart > 0]
    if not ratios:
        return "A line on these scales is a power law."
    of = f", in the median of {len(ratios)} kernels" if len(ratios) > 1 else ""
    return (
        f"The largest eigenvalue is {number(median(ratios), 2)} times that of a random "
        f"kernel with the same trace and spread{of}."
    )


def _spectrum_panel(ax: Axes, rows: list[Eigenvalue]) -> None:
    ax.set_yscale("log")
    floor = _ROUNDING * max(row.value for row in rows)
    rows = [row for row in rows if row.value > floor]
    methods = grouped((row.method, row) for row in rows)
    for (method, subset), look in zip(methods.items(), LOOKS, strict=False):
        subset.sort(key=lambda r: r.rank)
        table = [(r.rank, r.value, r.wishart) for r in subset]
        ranks, values, random = np.array(table, np.float64).T
        # Methods agree where they are exact: hollow markers leave the first in sight.
        how: dict[str, Any] = {"markersize": 3, "markerfacecolor": look.colour}
        if look is not LOOKS[0]:
            how = {"markersize": 5, "markerfacecolor": "none"}
        ax.plot(ranks, values, **look.points, **how, label=label(method))
        if (random > 0).any():
            random = np.where(random > 0, random, np.nan)
            ax.plot(ranks, random, "--", color=GREY, label="Marchenko-Pastur")
    draw.log_x(ax, [float(r.rank) for r in rows])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="rank", ylabel="eigenvalue")


spectrum = RowsFigure[KernelTables, Eigenvalue](
    "spectrum",
    "Spectrum of the kernel",
    "Eigenvalues against their rank, both on log scales, by each method, and the "
    "Marchenko-Pastur law of a random kernel with the same trace and spread. A "
    "panel for each checkpoint and metric; eigenvalues below a millionth of the "
    "largest, which are rounding, are left out.",
    "Eigenvalues, and the quantiles of the Marchenko-Pastur law",
    rows=lambda run: [
        (kernel_of(run, row), row)
        for row in run.tables.eigenvalues
        if row.value > 0 and math.isfinite(row.value)
    ],
    most=MOST,
    caption=_spectrum_caption,
    columns={
        "method": cells.text("method"),
        "rank": cells.number("rank"),
        "eigenvalue": cells.number("value", 4),
        "Marchenko-Pastur": cells.number("wishart", 4),
    },
    label_columns=2,
    most_rows=_MOST_ROWS,
    draw=lambda rows: draw.panels(rows, _spectrum_panel),
)


def _sketches_caption(rows: RowsBySubject[SketchError]) -> str:
    ratios = [row.error / row.expected for row in rows.every if row.expected > 0]
    if not ratios:
        return "An error that falls as 1/√m is a line of slope −½."
    return f"The error falls as 1/√m: it is {span(ratios)} times what theory says."


def _draw_sketches(rows: dict[str, list[SketchError]]) -> Figure:
    figure, ax = draw.canvas(3.4)
    ax.set_yscale("log")
    for (name, subset), look in zip(rows.items(), LOOKS, strict=False):
        points = sorted((r.m, r.error, r.expected) for r in subset)
        x, error, expected = np.array(points, np.float64).T
        ax.plot(x, error, look.marker, color=look.colour, label=label(name))
        expected = np.where(expected > 0, expected, np.nan)
        ax.plot(x, expected, color=look.colour, linestyle=look.dash, linewidth=0.9)
    draw.log_x(ax, [float(r.m) for subset in rows.values() for r in subset])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="buckets m", ylabel="error over |φ||φ′|")
    return draw.with_legend(figure, len(rows) > 1)


sketches = RowsFigure[KernelTables, SketchError](
    "sketches",
    "Error of a sketch",
    "Root mean square error of an element of the sketched kernel, over the norms "
    "of its two rows, against the number of buckets, both on log scales: markers "
    "are measured, lines are what theory says, of slope −½.",
    "Root mean square error of an element over the norms of its rows",
    rows=lambda run: [
        (kernel_of(run, row), row)
        for row in run.tables.sketches
        if row.error > 0 and row.m > 0 and math.isfinite(row.error)
    ],
    most=len(LOOKS),
    caption=_sketches_caption,
    columns={
        "buckets": cells.number("m"),
        "measured": cells.number("error"),
        "expected": cells.number("expected"),
    },
    draw=_draw_sketches,
)

PARTS = PageParts[KernelTables](
    answer=answer,
    sections=(
        Section(
            "Which responses move together",
            figures={"kernel by what a pair shares": blocks, "spectrum": spectrum},
            tables=(whole_kernels,),
        ),
        Section(
            "Does the kernel predict a step",
            figures={"held-out responses": predictions},
        ),
        Section(
            "Diagnostics of the estimators",
            figures={
                "elements against length": elements,
                "error of a sketch": sketches,
            },
            folded=True,
        ),
    ),
)
