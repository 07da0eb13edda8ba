"""How far the tables of two runs are apart."""

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def largest(one: Path, other: Path) -> tuple[float, int]:
    """The largest difference of a number, relative to its column, and their count.

    Infinite where tables, rows or texts differ.
    """
    files = sorted(path.name for path in (one / "results").glob("*.parquet"))
    if files != sorted(path.name for path in (other / "results").glob("*.parquet")):
        return math.inf, 0
    worst, count = 0.0, 0
    for name in files:
        a, b = (pq.read_table(run / "results" / name) for run in (one, other))
        if a.column_names != b.column_names or len(a) != len(b):
            return math.inf, count
        for column in a.column_names:
            x, y = (np.array(t[column].to_pylist(), dtype=object) for t in (a, b))
            p, q = _numbers(x), _numbers(y)
            if p is None or q is None:
                if list(map(str, x)) != list(map(str, y)):
                    return math.inf, count
                continue
            count += p.size
            worst = max(worst, _apart(p, q))
    return worst, count


def _numbers(values: np.ndarray) -> np.ndarray | None:
    try:
        return np.array([np.nan if v is None else v for v in values], np.float64)
    except (TypeError, ValueError):
        return None


def _apart(x: np.ndarray, y: np.ndarray) -> float:
    finite = np.isfinite(x)
    if (finite != np.isfinite(y)).any():
        return math.inf
    scale = np.abs(x[finite]).max(initial=0.0)
    off = np.abs(x[finite] - y[finite]).max(initial=0.0)
    return float(off / scale) if scale else float(off)
