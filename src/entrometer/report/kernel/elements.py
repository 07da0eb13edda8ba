"""Figures on the elements of the kernel: by block and by length; a table of kernels."""

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
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import Interval, number, percent, span, with_error
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    Subject,
    by_subject,
    distinct_names,
    omitted,
    spread,
)
from entrometer.report.style import LOOKS
from entrometer.report.table import Table, table
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
_QUANTITIES = {"kernel": "kernel K", "cosine": "cosine"}


def kernel_of(
    run: FinishedRun[KernelTables],
    row: Block | Eigenvalue | Element | Growth | SketchError | Whole,
) -> Subject:
    """Return which kernel a row is of: a checkpoint under a metric."""
    return Subject(run.name, row.checkpoint, row.metric, "")


def whole_kernels(runs: Runs) -> Table | None:
    """Return the numbers of each kernel, a row for each checkpoint and metric."""
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
    rows = [
        [*kernel_of(run, row)[:3], *(cell(row) for cell in columns.values())]
        for run in runs
        for row in run.tables.whole
    ]
    if not rows:
        return None
    return table(
        "The kernel of each checkpoint and metric: trace, effective rank (Σλ)²/Σλ², "
        "share of the squared elements that is off the diagonal, the noise scale in "
        "prompts with its 95% interval, and the seconds that rows and products took",
        ("run", "checkpoint", "metric", *columns),
        rows,
        label_columns=3,
    )


def blocks(runs: Runs) -> Plot | None:
    """Means with intervals: a panel for each metric, of the kernel and the cosine."""
    rows = [(kernel_of(run, row), row) for run in runs for row in run.tables.blocks]
    if not rows:
        return None
    places = list(dict.fromkeys((s.run, s.checkpoint) for s, _ in rows))
    shown = spread(places, len(draw.BAR_LOOKS))
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
        key="kernel-blocks",
        title="Kernel by what a pair shares",
        caption=_blocks_caption([row for _, row in rows]) + omitted(shown, places),
        description=(
            "Bars with 95% intervals: mean element of the kernel on the left and mean "
            "cosine on the right, of a response with itself, with others to the same "
            "prompt and with responses to other prompts; a row for each metric."
        ),
        table=table(
            "Mean over the pairs of a block ± one standard error clustered by prompt, "
            "with 95% interval, and the root of the mean square",
            ("run", "checkpoint", "metric", *columns),
            [[*s[:3], *(cell(row) for cell in columns.values())] for s, row in rows],
            label_columns=5,
        ),
        draw=lambda: _draw_blocks(
            [(series[s[:2]], row) for s, row in rows if s[:2] in series]
        ),
    )


def pairs_of(row: Block | Growth) -> str:
    """Return which pairs a block has, in words."""
    return PAIRS.get(row.block, row.block)


def _blocks_caption(rows: Sequence[Block]) -> str:
    parts = []
    for metric in dict.fromkeys(row.metric for row in rows):
        means = {
            block: [
                row.mean
                for row in rows
                if (row.metric, row.quantity, row.block) == (metric, "cosine", block)
            ]
            for block in ("prompt", "other")
        }
        if all(means.values()):
            same, other = (percent(median(subset)) for subset in means.values())
            parts.append(f"{same} and {other} under {metric}")
    if not parts:
        return "The longer a bar, the more a step on one response moves the other."
    return (
        "Responses to the same prompt and to other prompts have a mean cosine of "
        f"{', '.join(parts)}."
    )


def _draw_blocks(rows: Sequence[tuple[str, Block]]) -> Figure:
    metrics = list(dict.fromkeys(row.metric for _, row in rows))[:4]
    quantities = [q for q in _QUANTITIES if any(row.quantity == q for _, row in rows)]
    names = list(dict.fromkeys(pairs_of(row) for _, row in rows))
    series = list(dict.fromkeys(name for name, _ in rows))
    height = 0.9 + (0.3 + 0.14 * (len(series) - 1)) * len(names)
    figure = Figure(figsize=(9.0, 0.5 + height * len(metrics)))
    axes = figure.subplots(len(metrics), len(quantities), squeeze=False)
    for line, metric in zip(axes, metrics, strict=True):
        for ax, quantity in zip(line, quantities, strict=True):
            bars: dict[str, dict[str, Interval]] = {name: {} for name in series}
            for name, row in rows:
                if (row.metric, row.quantity) == (metric, quantity):
                    bars[name][pairs_of(row)] = Interval.of(row, "mean")
            draw.bars(ax, names, bars)
            draw.few_ticks(ax)
            ax.set_xlabel(f"mean {_QUANTITIES[quantity]}, {label(metric)}")
        for ax in line[1:]:
            ax.set_yticklabels([])
    return draw.with_legend(figure, len(series) > 1)


def elements(runs: Runs) -> Plot | None:
    """Size of elements against length on log scales, a panel for each kernel."""
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
    powers = {
        (kernel_of(run, row), row.block): row
        for run in runs
        for row in run.tables.growth
    }
    names = distinct_names(list(dict.fromkeys([*rows.rows, *(s for s, _ in powers)])))
    drawn = spread(list(rows.rows), MOST)
    shown = {
        names[s]: (
            spread(rows.rows[s], POINTS // len(drawn)),
            {block: row.power for (t, block), row in powers.items() if t == s},
        )
        for s in drawn
    }
    return Plot(
        key="elements",
        title="Elements against length",
        caption=_elements_caption(list(powers.values())) + rows.omitted,
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
                    *(names[s], pairs_of(row)),
                    *(with_error(row.power, row.power_se), number(row.pairs)),
                ]
                for (s, _), row in powers.items()
            ]
            or [["–"] * 4],
            label_columns=2,
        ),
        draw=lambda: draw.panels(shown, _panel),
    )


def _elements_caption(rows: Sequence[Growth]) -> str:
    powers: dict[str, list[float]] = {}
    for row in rows:
        powers.setdefault(pairs_of(row), []).append(row.power)
    if not powers:
        return "On these scales a power law is a line."
    parts = [f"{span(subset)} ({name})" for name, subset in powers.items()]
    return f"Elements grow with the length to the power {', '.join(parts)}."


def _panel(ax: Axes, shown: tuple[list[Element], dict[str, float]]) -> None:
    rows, powers = shown
    ax.set_yscale("log")
    every = list(dict.fromkeys(row.block for row in rows))
    for block, look in zip(every, cycle(LOOKS), strict=False):
        subset = [r for r in rows if r.block == block]
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
