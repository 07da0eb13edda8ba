"""The evaluations of training runs as a table."""

import math
from collections.abc import Sequence

import numpy as np

from entrometer.report.numbers import number, with_interval
from entrometer.report.read import TrainingRun
from entrometer.report.table import Table, table
from entrometer.runs import Metrics


def evaluations(runs: Sequence[TrainingRun]) -> Table | None:
    """What was measured at each checkpoint of the runs that were evaluated."""
    names = list(
        dict.fromkeys(
            name.removesuffix("_low")
            for run in runs
            for name in run.tables.evaluation or {}
            if name.endswith("_low") and not name.startswith("change_")
        )
    )
    rows = []
    for run in runs:
        found = run.tables.evaluation or {"step": np.empty(0)}
        for i, step in enumerate(found["step"].tolist()):
            ends = ("", "_low", "_high")
            cells = ([_at(found, name + end, i) for end in ends] for name in names)
            rows.append([run.name, number(step), *(with_interval(*c) for c in cells)])
    heads = (name.replace("_at_", "@").replace("_", " ") for name in names)
    caption = (
        "Checkpoints on held-out problems, with 95% intervals clustered by problem; "
        "length in tokens, entropy in nats a token"
    )
    return table(caption, ("run", "step", *heads), rows) if rows else None


def _at(table_: Metrics, name: str, i: int) -> float:
    return float(table_[name][i]) if name in table_ else math.nan
