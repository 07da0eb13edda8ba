"""Expected gains at later minibatches on a report page."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from entrometer.report.cells import interval, number, text
from entrometer.report.compare.points import UNITS, CompareRun
from entrometer.report.interval_rows import interval_panels
from entrometer.report.numbers import Interval
from entrometer.report.plot import Plot, Subject, by_subject
from entrometer.runs.tables.next_batches import LaterChange

_MOST = 4
"""Minibatches that a row has room for."""


def later_gains(runs: Sequence[CompareRun]) -> Plot | None:
    """Return the plot of gains at later minibatches; None without several updates."""
    rows = by_subject(
        (
            (Subject(run.name, row.checkpoint, "", row.minibatch), row)
            for run in runs
            for row in run.tables.later
            if row.against and row.known
        ),
        _MOST,
    )
    if rows is None:
        return None
    of_entropy = [row for row in rows.every if row.objective == "entropy"]
    passing = sum(row.passes for row in of_entropy)
    return Plot(
        "later-gains",
        "Gain over plain at later minibatches, expected over updates",
        "A row for each intervention: its step's change minus plain's, of entropy on "
        "the left and of reward on the right, with 95% intervals over updates and "
        "evaluation prompts; each minibatch has its colour and marker.",
        caption=f"{passing} of {len(of_entropy)} gains in entropy are distinguishable "
        "from 0 at a false discovery rate of 5%. Losses that equal plain at a "
        f"minibatch are left out there.{rows.omitted}",
        table=rows.table(
            "Change minus plain's by one step, with 95% intervals over updates and "
            "prompts: nats per token, reward per response",
            {
                "intervention": text("loss"),
                "objective": text("objective"),
                "updates": text("batches"),
                "gain": interval("expected"),
                "p": number("p_value", 2),
                "passes": lambda r: "yes" if r.passes else "no",
            },
            3,
        ),
        draw=lambda: _draw(rows.drawn),
    )


def _draw(rows: dict[str, list[LaterChange]]) -> Figure:
    every = [row for some in rows.values() for row in some]
    size: dict[str, float] = {}
    for row in every:
        if row.objective == "entropy":
            size[row.loss] = max(size.get(row.loss, row.expected), row.expected)
    names = sorted(size, key=lambda name: -size[name])
    panels = {
        f"gain in {objective}, {unit}": {
            name: {
                r.loss: Interval.of(r, "expected")
                for r in some
                if r.objective == objective
            }
            for name, some in rows.items()
        }
        for objective, unit in UNITS.items()
    }
    return interval_panels(names, panels)
