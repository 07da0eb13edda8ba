"""The tables of the README, from the rows.

Usage: python -m studies.off_policy_tables, from the root of the repository, prints them
from the tables in studies/off-policy. It takes seconds and measures nothing. Intervals
are 95%.
"""

from collections.abc import Mapping
from pathlib import Path

from entrometer.report.numbers import Interval, number, percent
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.mismatch import MismatchTables
from studies.collected import committed_tables
from studies.markdown import table

HERE = Path(__file__).parent / "off-policy"

Found = Mapping[str, CompareTables | MismatchTables]
"""Tables by the name of the folder."""


def committed() -> dict[str, CompareTables | MismatchTables]:
    """The tables that are kept here, in the order of their checkpoints."""
    kinds = {"workbench": CompareTables, "smollm2": MismatchTables}
    paths = sorted(HERE.glob("*-*"), key=lambda p: (p.name[0], int(_step(p))))
    return {
        path.name: committed_tables(path, kinds[path.name.split("-")[0]])
        for path in paths
    }


def _step(path: Path) -> str:
    return path.name.rpartition("-")[2]


def later(found: Found) -> str:
    """Gain of each loss over plain at later minibatches, in 1e-3 nats per token."""
    rows = []
    for name, tables_ in found.items():
        if isinstance(tables_, MismatchTables):
            continue
        every = [r for r in tables_.later if r.objective == "entropy"]
        places = list(dict.fromkeys(r.minibatch for r in every))
        for loss in dict.fromkeys(r.loss for r in every):
            cells = []
            for place in places:
                (row,) = (
                    r
                    for r in every
                    if (r.loss, r.minibatch) == (loss, place)
                    and bool(r.against) == (loss != every[0].loss)
                )
                mark = "**" * (row.passes and bool(row.against))
                text = str(Interval(*(1e3 * x for x in _ends(row))))
                cells.append(f"{mark}{text}{mark}" if row.known else "equal")
            rows.append([name, f"`{loss}`", *cells])
    return table(("checkpoint", "loss", *places), rows) if rows else ""


def _ends(row: object) -> tuple[float, float, float]:
    value = Interval.of(row, "expected")
    return value.value, value.low, value.high


def distances(found: Found) -> str:
    """How far apart the engine and the trainer are, and what the ratios do."""
    rows = []
    for name, tables_ in found.items():
        if not isinstance(tables_, MismatchTables):
            continue
        for engine in tables_.engines:
            for d in tables_.distances:
                if d.by not in ("all", "probability"):
                    continue
                worth = f"{engine.effective:.1f} of {engine.responses}"
                rows.append(
                    [
                        *(name, d.name, str(d.tokens)),
                        *(number(x, 2) for x in (d.size, d.size_99, d.largest)),
                        *(str(Interval.of(d, x)) for x in ("entropy", "reward")),
                        worth if d.by == "all" else "",
                    ]
                )
    heads = ("checkpoint", "tokens", "number", "mean", "99%", "largest")
    more = ("on entropy", "on reward", "responses left")
    return table((*heads, *more), rows) if rows else ""


def corrections(found: Found) -> str:
    """What each correction changes: in the step that was taken, and expected."""
    rows = []
    for name, tables_ in found.items():
        if not isinstance(tables_, MismatchTables):
            continue
        expected = {
            (r.loss, r.objective): r
            for r in tables_.expected
            if r.against and r.horizon == 1
        }
        for o in tables_.outcomes:
            if not o.tried or o.name == "dr-grpo":
                continue
            ahead = expected[o.settings, o.objective]
            rows.append(
                [
                    *(name, f"`{o.settings}`", o.objective, percent(o.changed)),
                    str(Interval(*o.told_gain)),
                    str(Interval.of(ahead, "expected")) if ahead.known else "equal",
                    "yes" if ahead.passes else "no",
                ]
            )
    heads = ("checkpoint", "correction", "of", "tokens", "taken, one batch")
    return table((*heads, "expected", "passes"), rows) if rows else ""


def tables(found: Found) -> str:
    """All tables, with the heads that the README has."""
    parts = {
        "Later minibatches": later(found),
        "Distance": distances(found),
        "Corrections": corrections(found),
    }
    return "\n\n".join(f"{head}:\n\n{text}" for head, text in parts.items() if text)


if __name__ == "__main__":
    print(tables(committed()))
