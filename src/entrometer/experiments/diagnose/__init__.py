"""What drains entropy, and what would help: `entrometer diagnose`."""

from collections.abc import Mapping, Sequence
from typing import Any

from entrometer.experiments.diagnose.config import DiagnoseConfig
from entrometer.experiments.experiment import Experiment, Steps, experiment, register
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.diagnose import DiagnoseTables

_PARTS = ("measure", "influence", "compare")


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.diagnose.plan import collect, follow_up, plan
    from entrometer.experiments.diagnose.summary import summarize

    return Steps(plan, collect, summarize, follow_up)


def _page() -> PageParts[DiagnoseTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.diagnose import PARTS

    return PARTS


def _text(tables: DiagnoseTables) -> Sequence[str]:
    draining = experiment("influence").text(tables)[1]
    return [draining, *experiment("compare").text(tables)]


def _json_rows(tables: DiagnoseTables) -> Mapping[str, Sequence[Any]]:
    rows: dict[str, Sequence[Any]] = {"curve": tables.curve}
    for name in _PARTS:
        rows |= experiment(name).json_rows(tables)
    # Every table of `compare` is printed there, also those that other parts have.
    names = {"curve", "signal", "changes", "balance", "groups", "outcomes", "remedies"}
    return {name: table for name, table in rows.items() if name in names}


DIAGNOSE = register(
    Experiment(
        name="diagnose",
        help="Find what drains entropy at a checkpoint, and which remedy would help.",
        config=DiagnoseConfig,
        tables=DiagnoseTables,
        steps=_steps,
        text=_text,
        json_rows=_json_rows,
        page=_page,
    )
)
