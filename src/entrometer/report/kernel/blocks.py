"""Elements of the kernel by what their pair shares."""

from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.bars import LOOKS, Bar, draw_bars
from entrometer.report.kernel.subjects import Runs, block_name, kernel_of
from entrometer.report.numbers import interval, number, percent, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import Subject, drawn, spread
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import Block

_TITLES = {"kernel": "kernel K", "cosine": "cosine"}
Row = tuple[Subject, Block]


def blocks(runs: Runs) -> Plot | None:
    """Means with intervals: a panel for each metric, of the kernel and the cosine."""
    rows = [(kernel_of(run, row), row) for run in runs for row in run.tables.blocks]
    if not rows:
        return None
    places = list(dict.fromkeys((s.run, s.checkpoint) for s, _ in rows))
    some = spread(places, len(LOOKS))
    several = len({run for run, _ in places}) > 1
    return Plot(
        key="kernel-blocks",
        title="Kernel by what a pair shares",
        caption=_caption(rows) + drawn(some, places),
        description=(
            "Bars with 95% intervals: mean element of the kernel on the left and mean "
            "cosine on the right, of a response with itself, with others to the same "
            "prompt and with responses to other prompts; a row for each metric."
        ),
        table=table(
            "Mean over the pairs of a block ± one standard error clustered by prompt, "
            "with 95% interval, and the root of the mean square",
            (
                *("run", "checkpoint", "metric", "quantity", "pairs of", "mean"),
                *("95% interval", "root mean square", "pairs", "responses", "prompts"),
            ),
            [
                [
                    *(*s[:3], row.quantity, block_name(row.block)),
                    with_error(row.mean, row.mean_se),
                    interval(row.mean_low, row.mean_high),
                    *(number(row.size), number(row.pairs)),
                    *(number(row.responses), number(row.prompts)),
                ]
                for s, row in rows
            ],
            words=5,
        ),
        draw=lambda: _draw([r for r in rows if r[0][:2] in some], several),
    )


def _caption(rows: list[Row]) -> str:
    told = []
    for metric in dict.fromkeys(row.metric for _, row in rows):
        means = {
            block: [
                row.mean
                for _, row in rows
                if (row.metric, row.quantity, row.block) == (metric, "cosine", block)
            ]
            for block in ("prompt", "other")
        }
        if all(means.values()):
            same, other = (percent(median(means[b])) for b in ("prompt", "other"))
            told.append(f"{same} and {other} under {metric}")
    if not told:
        return "The longer a bar, the more a step on one response moves the other."
    return (
        "Responses to the same prompt and to other prompts have a mean cosine of "
        f"{', '.join(told)}."
    )


def _draw(rows: list[Row], several: bool) -> Figure:
    metrics = list(dict.fromkeys(row.metric for _, row in rows))[:4]
    quantities = [q for q in _TITLES if any(row.quantity == q for _, row in rows)]
    names = list(dict.fromkeys(row.block for _, row in rows))
    series = list(dict.fromkeys(_series(s, several) for s, _ in rows))
    each = 0.3 + 0.14 * (len(series) - 1)
    height = 0.9 + each * len(names)
    figure = Figure(figsize=(9.0, 0.5 + height * len(metrics)))
    axes = figure.subplots(len(metrics), len(quantities), squeeze=False)
    for line, metric in zip(axes, metrics, strict=True):
        for ax, quantity in zip(line, quantities, strict=True):
            own = [
                r for r in rows if (r[1].metric, r[1].quantity) == (metric, quantity)
            ]
            _panel(ax, own, names, series, several)
            ax.set_xlabel(f"mean {_TITLES[quantity]}, {label(metric)}")
        for ax in line[1:]:
            ax.set_yticklabels([])
    if len(series) > 1:
        legend_above(figure)
    return figure


def _series(s: Subject, several: bool) -> str:
    return f"{s.run}, {s.checkpoint}" if several else s.checkpoint


def _panel(
    ax: Axes, rows: list[Row], names: list[str], series: list[str], several: bool
) -> None:
    bars: dict[str, dict[str, Bar]] = {name: {} for name in series}
    for s, row in rows:
        bar = Bar(row.mean, row.mean_low, row.mean_high)
        bars[_series(s, several)][block_name(row.block)] = bar
    draw_bars(ax, [block_name(name) for name in names], bars)
    ax.xaxis.set_major_locator(MaxNLocator(5))
