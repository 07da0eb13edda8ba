import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.cli.replay import first_difference
from entrometer.runs import DamagedFile

ROWS = [{"x": 1.0, "q": [0.0, math.nan]}, {"x": math.nan, "q": []}]


def write(run, rows, name="t.parquet"):
    run.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), run / name)


def compare(tmp_path, *patterns):
    return first_difference(tmp_path / "old", tmp_path / "new", patterns)


def test_same_rows_with_nan_do_not_differ(tmp_path):
    for run in ("old", "new"):
        write(tmp_path / run, ROWS)
    assert compare(tmp_path, "*.parquet") is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [ROWS[0], {"x": 2.0, "q": []}],
            "t.parquet, row 1, x: was nan, is 2.0",
        ),
        (
            [{"x": 1.0, "q": [0.0, 5.0]}, ROWS[1]],
            "t.parquet, row 0, q: was [0.0, nan], is [0.0, 5.0]",
        ),
        (ROWS[:1], "t.parquet: had 2 rows, has 1"),
        ([{"x": 1.0}, {"x": math.nan}], "t.parquet, row 0, q: was [0.0, nan], is None"),
    ],
)
def test_first_difference_is_named_by_its_place(tmp_path, rows, said):
    write(tmp_path / "old", ROWS)
    write(tmp_path / "new", rows)
    assert compare(tmp_path, "*.parquet") == said


def test_a_file_that_one_run_lacks_is_a_difference(tmp_path):
    write(tmp_path / "old", ROWS)
    write(tmp_path / "new", ROWS)
    write(tmp_path / "new", ROWS, "u.parquet")
    said = compare(tmp_path, "*.parquet")
    assert said == f"u.parquet: {tmp_path / 'old'} has no such file"


def test_other_files_are_compared_by_their_bytes(tmp_path):
    for run, content in (("old", b"a"), ("new", b"b")):
        (tmp_path / run).mkdir()
        (tmp_path / run / "w.safetensors").write_bytes(content)
    assert compare(tmp_path, "*.safetensors") == "w.safetensors: the bytes differ"


def test_a_damaged_table_is_refused(tmp_path):
    for run in ("old", "new"):
        write(tmp_path / run, ROWS)
    (tmp_path / "new" / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamagedFile):
        compare(tmp_path, "*.parquet")
