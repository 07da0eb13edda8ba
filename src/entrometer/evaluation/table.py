"""The results as a Parquet file, and as text."""

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from entrometer.estimators import Estimate
from entrometer.evaluation.results import Row
from entrometer.runs import atomic_write


def record(row: Row) -> dict[str, int | float]:
    """A row as flat columns, for a file or for JSON.

    A measure x has the columns `x`, `x_standard_error`, `x_low` and `x_high`; its
    change the same after `change_x`, all NaN for the first checkpoint.
    """
    flat: dict[str, int | float] = {
        "step": row.step,
        "prompts": row.prompts,
        "responses": row.responses,
    }
    for name, estimate in row.measures.items():
        flat |= _columns(name, estimate)
    for name in row.measures:
        flat |= _columns(f"change_{name}", row.changes.get(name))
    return flat


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write one row a checkpoint, whole or not at all."""
    records = [record(row) for row in rows]
    counts = ("step", "prompts", "responses")
    columns = {
        name: pa.array(
            [r[name] for r in records],
            pa.int64() if name in counts else pa.float64(),
            from_pandas=False,
        )
        for name in records[0]
    }
    with atomic_write(path) as file:
        pq.write_table(pa.table(columns), file, write_page_checksum=True)


def render(rows: Sequence[Row]) -> str:
    """A plain table of values and intervals, with the change of pass@1 at its end."""
    names = list(rows[0].measures)
    heads = ["step", *(n.replace("_at_", "@") for n in names), "pass@1 change"]
    lines = [[h.replace("_", " ") for h in heads], *(_cells(r, names) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(
        "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True))
        for line in lines
    )
    about = (
        f"Each checkpoint: {rows[0].prompts} problems, {rows[0].responses} responses. "
        "Brackets: 95% intervals, clustered by problem. Length in tokens, entropy in "
        "nats a token."
    )
    return f"{text}\n{about}\n"


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    change = row.changes.get("pass_at_1")
    return [
        str(row.step),
        *(
            _cell(row.measures[name], ".1f" if name == "length" else ".3f")
            for name in names
        ),
        "" if change is None else _cell(change, "+.3f"),
    ]


def _cell(e: Estimate, spec: str) -> str:
    return f"{e.value:{spec}} [{e.low:{spec}}, {e.high:{spec}}]"


def _columns(name: str, estimate: Estimate | None) -> dict[str, float]:
    e = estimate
    values = (
        (math.nan,) * 4 if e is None else (e.value, e.standard_error, e.low, e.high)
    )
    ends = ("", "_standard_error", "_low", "_high")
    return {name + end: value for end, value in zip(ends, values, strict=True)}
