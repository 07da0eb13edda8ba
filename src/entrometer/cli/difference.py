"""The first place at which two runs differ."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from entrometer.runs.content import file_sha256
from entrometer.runs.parquet import read_parquet


def first_difference(old: Path, new: Path, patterns: tuple[str, ...]) -> str | None:
    """Where the files of two directories differ first; None where they do not.

    Parquet files are compared row by row, NaN equal to NaN; all others by their bytes.
    """
    names = [sorted(_names(run, patterns)) for run in (old, new)]
    for name in sorted({*names[0], *names[1]}):
        for run, own in zip((old, new), names, strict=True):
            if name not in own:
                return f"{name}: {run} has no such file"
        found = _compare(name, old / name, new / name)
        if found is not None:
            return found
    return None


def _names(run: Path, patterns: tuple[str, ...]) -> list[str]:
    return [p.relative_to(run).as_posix() for x in patterns for p in run.glob(x)]


def _compare(name: str, old: Path, new: Path) -> str | None:
    if old.suffix != ".parquet":
        same = file_sha256(old) == file_sha256(new)
        return None if same else f"{name}: the bytes differ"
    was, now = _rows(old), _rows(new)
    for number, (before, after) in enumerate(zip(was, now, strict=False)):
        for column in {**before, **after}:
            values = before.get(column), after.get(column)
            if not _equal(*values):
                place = f"{name}, row {number}, {column}"
                return f"{place}: was {_told(values[0])}, is {_told(values[1])}"
    if len(was) != len(now):
        return f"{name}: had {len(was)} rows, has {len(now)}"
    return None


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_parquet(
        path,
        pa.Table.to_pylist,
        expected="a table",
        remedy="make the run again",
        as_objects=True,
    )
    return rows


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b or (a != a and b != b))


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
