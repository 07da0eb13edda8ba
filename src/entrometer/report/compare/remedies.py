"""How interventions are had elsewhere."""

from collections.abc import Sequence

from entrometer.report.compare.points import CompareRun
from entrometer.report.numbers import MISSING
from entrometer.report.table import Table
from entrometer.runs.tables.compare import Remedy

_HEADS = ("intervention", "published", "TRL", "verl", "there")


def remedies(runs: Sequence[CompareRun]) -> Table | None:
    """Lines for TRL and verl at the strength that was tried."""
    return _table(
        "How to have each intervention at the strength that was tried: by entrometer "
        "train --intervention, by settings of TRL and by those of verl, and what these "
        "do otherwise",
        _rows(runs, tried=True),
    )


def strengths(runs: Sequence[CompareRun]) -> Table | None:
    """The same at the other strengths that were predicted."""
    return _table(
        "How to have each intervention at the other strengths that were predicted",
        _rows(runs, tried=False),
    )


def _rows(runs: Sequence[CompareRun], *, tried: bool) -> list[Remedy]:
    """Those of all runs, each once."""
    found = {
        remedy: None
        for run in runs
        for names in [{o.settings for o in run.tables.outcomes if o.tried}]
        for remedy in run.tables.remedies
        if (remedy.settings in names) == tried
    }
    return list(found)


def _table(caption: str, rows: Sequence[Remedy]) -> Table | None:
    if not rows:
        return None
    return Table(
        caption=caption,
        heads=_HEADS,
        rows=tuple(
            tuple(text or MISSING for text in texts)
            for r in rows
            for texts in [(r.settings, r.source, r.trl, r.verl, r.differs)]
        ),
        words=len(_HEADS),
        code=(0, 2, 3),
    )
