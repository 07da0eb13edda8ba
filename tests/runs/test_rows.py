import math
from dataclasses import dataclass

import pytest

from entrometer.runs import DamagedFile
from entrometer.runs.rows import read_rows, write_rows
from entrometer.runs.tables.measure import Change


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    count: int
    value: float
    right: bool
    quantiles: tuple[float, ...]


ROWS = [
    Row(name="a\u202e<b>", count=2**60, value=1e-300, right=True, quantiles=()),
    Row(name="", count=-1, value=math.inf, right=False, quantiles=(0.1, 0.2)),
]


def test_rows_come_back_as_they_were(tmp_path):
    write_rows(tmp_path / "rows.parquet", Row, ROWS)
    assert read_rows(tmp_path / "rows.parquet", Row) == ROWS


def test_nan_is_not_null(tmp_path):
    rows = [Row(name="", count=0, value=math.nan, right=True, quantiles=(math.nan,))]
    write_rows(tmp_path / "rows.parquet", Row, rows)
    (row,) = read_rows(tmp_path / "rows.parquet", Row)
    assert math.isnan(row.value)
    assert math.isnan(row.quantiles[0])


def test_no_row_is_a_table_too(tmp_path):
    write_rows(tmp_path / "rows.parquet", Row, [])
    assert read_rows(tmp_path / "rows.parquet", Row) == []


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for name in "ab":
        write_rows(tmp_path / name, Row, ROWS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_rows_of_another_class_are_refused(tmp_path):
    write_rows(tmp_path / "rows.parquet", Row, ROWS)
    with pytest.raises(DamagedFile, match="rows of Change"):
        read_rows(tmp_path / "rows.parquet", Change)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    write_rows(path, Row, ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFile, match="damaged"):
        read_rows(path, Row)
