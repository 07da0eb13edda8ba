"""What one step does to the entropy of checkpoints."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.api.experiment import Experiment, Functions, records
from entrometer.api.output import interval, table
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.measure import Change, MeasureTables


def _functions() -> Functions:
    from entrometer.experiments.entropy_change.forecast import foresee
    from entrometer.experiments.entropy_change.measure import measure

    return Functions(measure, foresee)


def _text(directory: Path) -> Sequence[str]:
    rows = [
        [
            c.checkpoint,
            c.update,
            f"{c.eta:.3g}",
            interval(c.observed, c.observed_low, c.observed_high),
            interval(c.linear, c.linear_low, c.linear_high),
        ]
        for c in _changes(directory)
    ]
    heads = ["checkpoint", "update", "learning rate", "change", "linear prediction"]
    note = "\nNats a token; brackets: 95% intervals, clustered by prompt."
    return [table(heads, rows, words=2) + note]


def _rows(directory: Path) -> dict[str, Any]:
    signal = records(read_tables(directory, MeasureTables), "signal")
    return signal | {"changes": [asdict(change) for change in _changes(directory)]}


def _changes(directory: Path) -> list[Change]:
    """The changes that the summary is about: weighted per decision, a token each."""
    return [
        row
        for row in read_tables(directory, MeasureTables).changes
        if (row.weighting, row.per) == ("per_decision", "token")
    ]


MEASURE = Experiment(
    verb="measure",
    kind="entropy change",
    tables=table_classes(MeasureTables),
    config=MeasureConfig,
    functions=_functions,
    text=_text,
    rows=_rows,
)
