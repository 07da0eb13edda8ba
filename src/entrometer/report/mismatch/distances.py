"""Figures and a table of how far engine and trainer are apart, and what that does."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.cells import interval, number, text
from entrometer.report.compare.points import UNITS
from entrometer.report.interval_rows import interval_panels
from entrometer.report.mismatch.answer import MismatchRun, pairs
from entrometer.report.numbers import Interval, percent
from entrometer.report.numbers import number as rounded
from entrometer.report.plot import Plot, RowsBySubject, Subject, by_subject
from entrometer.report.style import LOOKS
from entrometer.report.table import Table, table
from entrometer.runs.tables.mismatch import Distance, Token

_MOST = 4
"""Updates that a figure has room for."""
_LIMITS = (1e-3, 1e-2, 0.1, np.log(2.0))


def apart(runs: Sequence[MismatchRun]) -> Plot | None:
    """Return the plot of the share of tokens that are further apart than a distance."""
    rows = _of_tokens(runs)
    if rows is None:
        return None
    sizes = {name: _sizes(some) for name, some in rows.drawn.items()}
    largest = max(float(x.max()) for x in sizes.values())
    beyond = float(np.mean(np.concatenate([*sizes.values()]) > np.log(2.0)))
    return Plot(
        "apart",
        "Share of tokens that are further apart than a distance",
        "The share of tokens upwards, on a logarithmic scale, that are further apart "
        "than the distance on the horizontal axis, |log m| in nats, on a logarithmic "
        "scale too; a line per update.",
        caption=f"The farthest token is {rounded(largest, 2)} nats apart; "
        f"{percent(beyond)} of the tokens are more than twice, or less than half, as "
        f"likely for the trainer as for the engine.{rows.omitted}",
        table=table(
            "Share of tokens further apart than a distance, in nats",
            ("update", *(f"above {rounded(x, 2)}" for x in _LIMITS)),
            [
                [name, *(percent(float(np.mean(x > limit))) for limit in _LIMITS)]
                for name, x in sizes.items()
            ],
        ),
        draw=lambda: _draw_shares(sizes),
    )


def _of_tokens(runs: Sequence[MismatchRun]) -> RowsBySubject[Token] | None:
    return by_subject(
        (
            (Subject(run.name, token.checkpoint, token.update, ""), token)
            for run in runs
            for token in run.tables.tokens
        ),
        _MOST,
    )


def _sizes(tokens: Sequence[Token]) -> np.ndarray:
    return np.sort(np.array([abs(t.S_old - t.S_engine) for t in tokens]))


def _draw_shares(sizes: dict[str, np.ndarray]) -> Figure:
    figure, ax = draw.canvas(3.4)
    for (name, size), look in zip(sizes.items(), LOOKS, strict=False):
        share = 1.0 - np.arange(size.size) / size.size
        ax.plot(size, share, color=look.colour, label=name)
    every = np.concatenate([*sizes.values()])
    # The few tokens that are nearer than a thousandth of the median tell nothing.
    draw.log_x(ax, every[every > np.median(every) / 1e3])
    ax.set_yscale("log")
    draw.log_axis(ax.yaxis)
    ax.set_xlabel("distance |log m| of engine and trainer, nats")
    ax.set_ylabel("share of tokens further apart")
    return draw.with_legend(figure, len(sizes) > 1)


def by_group(runs: Sequence[MismatchRun]) -> Table | None:
    """Return the table of distances and effects by group of tokens."""
    rows = _of_groups(runs)
    if rows is None:
        return None
    return rows.table(
        "Distance |log m| of engine and trainer in nats, divergence of the engine from "
        "the trainer in nats per token, and the effect of weighing the group's tokens "
        "by m at the learning rate of the step, to first order, with 95% intervals",
        {
            "tokens by": text("by"),
            "group": text("name"),
            "number": number("tokens"),
            "mean": number("size", 2),
            "99%": number("size_99", 2),
            "largest": number("largest", 2),
            "divergence": number("divergence", 2),
            "on entropy": interval("entropy"),
            "on reward": interval("reward"),
        },
        3,
    )


def _of_groups(runs: Sequence[MismatchRun]) -> RowsBySubject[Distance] | None:
    return by_subject(
        (
            (Subject(run.name, row.checkpoint, row.update, ""), row)
            for run in runs
            for row in run.tables.distances
        ),
        _MOST,
    )


def effects(runs: Sequence[MismatchRun]) -> Plot | None:
    """Return the plot of the effect of the ratios, by group of tokens."""
    rows = _of_groups(runs)
    if rows is None:
        return None
    whole = [d for run in runs for _, d in pairs(run)]
    felt = sum(d.entropy_low > 0 or d.entropy_high < 0 for d in whole)
    return Plot(
        "mismatch-effects",
        "Effect of weighing tokens by their ratio",
        "A row for each group of tokens: how weighing them by m, the trainer's "
        "probability over the engine's, would change what the step does to entropy, on "
        "the left, and to reward, on the right, with 95% intervals.",
        caption=f"The effect of all tokens on entropy differs from 0 beyond noise at "
        f"{felt} of {len(whole)} updates. The groups of each kind add up to all tokens."
        + rows.omitted,
        table=rows.table(
            "Effect of weighing a group's tokens by m, to first order, with 95% "
            "intervals: nats per token, reward per response",
            {
                "tokens by": text("by"),
                "group": text("name"),
                "on entropy": interval("entropy"),
                "on reward": interval("reward"),
            },
            3,
        ),
        draw=lambda: _draw_effects(rows.drawn),
    )


def _draw_effects(rows: dict[str, list[Distance]]) -> Figure:
    names = list(dict.fromkeys(_row(d) for some in rows.values() for d in some))
    panels = {
        f"effect on {objective}, {unit}": {
            name: {_row(d): Interval.of(d, objective) for d in some}
            for name, some in rows.items()
        }
        for objective, unit in UNITS.items()
    }
    return interval_panels(names, panels)


def _row(d: Distance) -> str:
    return "all tokens" if d.by == "all" else f"{d.by}: {d.name}"
