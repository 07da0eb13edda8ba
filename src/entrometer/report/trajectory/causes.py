"""What drained entropy over a training: parts of the steps, tokens and prompts."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.compare.points import UNITS
from entrometer.report.numbers import Interval, number
from entrometer.report.plot import Plot, RowsBySubject, by_subject, grouped
from entrometer.report.style import BAR_LOOKS
from entrometer.report.table import Table
from entrometer.report.trajectory.answer import TrajectoryRun
from entrometer.report.trajectory.curve import subject
from entrometer.runs.tables.trajectory import Summed, TrainedPrompt

_GROUPED_BY = {"part": "part of the steps", "kind": "kind of the batches' tokens"}
_PARTS = {"batch": "the batches", "history": "momentum", "decay": "weight decay"}
_LISTED = 15
"""Prompts in the table."""
_LONGEST = 240
"""Most characters of a prompt in the table."""


def sums(runs: Sequence[TrajectoryRun]) -> Plot | None:
    """Return the plot of predictions summed over the run, by part and by kind."""
    rows = by_subject(
        ((subject(run), row) for run in runs for row in run.tables.sums),
        len(BAR_LOOKS),
    )
    if rows is None:
        return None
    return Plot(
        "trajectory-sums",
        "Predicted change by part of the steps and by kind of token",
        "Bars with 95% intervals: linear predictions of the updates, summed over the "
        "training, of entropy on the left and of reward on the right; by part of the "
        "steps above, and by kind of the batches' tokens below.",
        caption=_caption(rows) + rows.omitted,
        table=rows.table(
            "Linear predictions of the updates summed over the training, ± one "
            "standard error, with 95% interval: entropy in nats per token, reward per "
            "response",
            {
                "objective": cells.text("objective"),
                "by": cells.text("by"),
                "group": cells.text("name"),
                "tokens": cells.number("tokens"),
                "sum": cells.error("value"),
                "95% interval": cells.ends("value"),
            },
            4,
        ),
        draw=lambda: _draw(rows.drawn),
    )


def _caption(rows: RowsBySubject[Summed]) -> str:
    drained = [r for r in rows.every if r.objective == "entropy" and r.value < 0]
    if not drained:
        return "Bars to the left of zero lower entropy, or reward."
    words = []
    for by, what in _GROUPED_BY.items():
        some = [row for row in drained if row.by == by]
        if some:
            most = min(some, key=lambda row: row.value)
            name = _PARTS.get(most.name, most.name)
            words.append(
                f"by {what}, {name} drained most: {Interval.of(most, 'value')} "
                f"{UNITS['entropy']}"
            )
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}. Kinds of token add up to the batches."


def _name(row: Summed) -> str:
    return _PARTS.get(row.name, row.name) if row.by == "part" else row.name


def _draw(rows: dict[str, list[Summed]]) -> Figure:
    every = grouped((row.by, _name(row)) for some in rows.values() for row in some)
    names = {by: list(dict.fromkeys(every[by])) for by in _GROUPED_BY if by in every}
    heights = [len(subset) + 1.2 for subset in names.values()]
    each = 0.3 + 0.13 * (len(rows) - 1)
    figure, axes = draw.canvas(
        1.0 + each * sum(heights), len(names), 2, squeeze=False, height_ratios=heights
    )
    for line, (by, labels) in zip(axes, names.items(), strict=True):
        for ax, objective in zip(line, UNITS, strict=True):
            which = {"by": by, "objective": objective}
            draw.bars(ax, labels, draw.interval_series(rows, _name, "value", **which))
            draw.few_ticks(ax)
        line[0].set_title(f"by {_GROUPED_BY[by]}")
        draw.hide_row_names(line[1])
    for line in draw.labelled_lines(axes):
        for ax, objective in zip(line, UNITS, strict=True):
            ax.set_xlabel(f"predicted change of {objective}, {UNITS[objective]}")
    return draw.with_legend(figure, len(rows) > 1)


def few_prompts(runs: Sequence[TrajectoryRun]) -> str | None:
    """Return how few of the training's prompts account for half of the drain."""
    words = []
    for run in runs:
        for row in run.tables.concentration:
            of = f"{run.name}: " if len(runs) > 1 else ""
            drained = Interval.of(row, "drained")
            words.append(
                f"{of}{row.half:,} of the {row.prompts:,} prompts in the recorded "
                f"updates account for half of what the batches drained: {drained} of "
                f"{number(row.drain)} {UNITS['entropy']}, chosen by half of the "
                "evaluation prompts and measured by the other half."
                if row.half
                else f"{of}No drain by the {row.prompts:,} prompts in the recorded "
                "updates holds on held-out evaluation prompts."
            )
    return " ".join(words) or None


def draining_prompts(runs: Sequence[TrajectoryRun]) -> Table | None:
    """Return the table of the training's prompts that lowered entropy most."""
    rows = by_subject(
        ((subject(run), row) for run in runs for row in run.tables.prompts[:_LISTED]),
        len(runs),
    )
    if rows is None:
        return None
    shown = sum(len(run.tables.prompts) for run in runs)
    return rows.table(
        f"The prompts whose responses lowered entropy most, of {shown:,}: predicted "
        "changes at the training's learning rates, summed over the recorded updates in "
        "which the prompt appeared, with 95% intervals over evaluation prompts. They "
        "are chosen by the same noise, so the true values are nearer to 0",
        {
            "prompt": _shortened,
            "updates": cells.number("updates"),
            "responses": cells.number("responses"),
            "mean reward": cells.number("mean_reward", 2),
            "on entropy": cells.interval("entropy"),
            "on reward": cells.interval("reward"),
        },
        2,
    )


def _shortened(row: TrainedPrompt) -> str:
    return row.text if len(row.text) <= _LONGEST else row.text[: _LONGEST - 1] + "…"
