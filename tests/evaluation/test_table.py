import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.estimators import Estimate
from entrometer.evaluation import Row, record, render, write_table


def estimate(value: float, error: float) -> Estimate:
    return Estimate(
        value=value,
        standard_error=error,
        low=value - 2 * error,
        high=value + 2 * error,
        effective_samples=40.0,
        prompts=10,
    )


@pytest.fixture
def rows() -> list[Row]:
    nan = math.nan
    return [
        Row(
            step=0,
            prompts=10,
            responses=40,
            measures={"pass_at_1": estimate(0.25, 0.05), "length": estimate(31.5, nan)},
            changes={},
        ),
        Row(
            step=128,
            prompts=10,
            responses=40,
            measures={"pass_at_1": estimate(0.5, 0.1), "length": estimate(30.0, 1.0)},
            changes={
                "pass_at_1": estimate(0.25, 0.0625),
                "length": estimate(-1.5, 0.5),
            },
        ),
    ]


def test_a_record_is_flat(rows):
    found = record(rows[1])
    assert found["step"] == 128
    assert found["pass_at_1"] == 0.5
    assert found["pass_at_1_standard_error"] == 0.1
    assert found["pass_at_1_low"] == pytest.approx(0.3)
    assert found["change_pass_at_1_high"] == 0.375
    assert len(found) == 3 + 2 * 2 * 4
    assert list(found) == list(record(rows[0]))


def test_what_is_not_defined_is_nan_and_never_0(rows):
    first = record(rows[0])
    assert math.isnan(first["length_standard_error"])
    assert math.isnan(first["length_low"])
    assert all(math.isnan(first[c]) for c in first if c.startswith("change_"))


def test_the_file_has_a_row_a_checkpoint(tmp_path, rows):
    write_table(tmp_path / "table.parquet", rows)
    table = pq.ParquetFile(tmp_path / "table.parquet").read()
    assert table["step"].to_pylist() == [0, 128]
    assert table["pass_at_1"].to_pylist() == [0.25, 0.5]
    assert table["change_pass_at_1"].null_count == 0
    types = {f.name: f.type for f in table.schema}
    assert types["step"] == types["responses"] == pa.int64()
    assert types["length"] == pa.float64()


def test_the_text_has_values_with_intervals(rows):
    assert render(rows).splitlines() == [
        "step                pass@1             length            pass@1 change",
        "   0  0.250 [0.150, 0.350]    31.5 [nan, nan]                         ",
        " 128  0.500 [0.300, 0.700]  30.0 [28.0, 32.0]  +0.250 [+0.125, +0.375]",
        "Each checkpoint: 10 problems, 40 responses. Brackets: 95% intervals, "
        "clustered by problem. Length in tokens, entropy in nats a token.",
    ]
