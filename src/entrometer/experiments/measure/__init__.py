"""How much one optimizer step changes the entropy: `entrometer measure`."""

from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.measure import Change, MeasureTables
from entrometer.text import interval_of, table


def _steps() -> Steps:
    # Imported on use: these modules import torch, which `--help` does without.
    from entrometer.experiments.measure.collect import collect
    from entrometer.experiments.measure.plan import plan
    from entrometer.experiments.measure.studies import seconds_of_studies
    from entrometer.experiments.measure.summary import summarize

    return Steps(plan, collect, summarize, seconds_after=seconds_of_studies)


def _page() -> PageParts[MeasureTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.measure import PARTS

    return PARTS


def _shown(tables: MeasureTables) -> list[Change]:
    """Return the changes in the summary: per token, weighted per decision."""
    shown = ("per_decision", "token")
    return [row for row in tables.changes if (row.weighting, row.per) == shown]


def _text(tables: MeasureTables) -> Sequence[str]:
    rows = [
        [
            c.checkpoint,
            c.update,
            f"{c.eta:.3g}",
            interval_of(c, "observed"),
            interval_of(c, "linear"),
        ]
        for c in _shown(tables)
    ]
    heads = ["checkpoint", "update", "learning rate", "change", "linear prediction"]
    note = "\nNats per token; brackets: 95% intervals, clustered by prompt."
    return [table(heads, rows, label_columns=2) + note]


MEASURE = register(
    Experiment(
        name="measure",
        help="Measure how much one optimizer step changes the entropy of checkpoints.",
        config=MeasureConfig,
        tables=MeasureTables,
        steps=_steps,
        text=_text,
        json_rows=lambda tables: {"signal": tables.signal, "changes": _shown(tables)},
        page=_page,
    )
)
