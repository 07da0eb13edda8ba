import json
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.runs import (
    DamagedFile,
    UpdateBatch,
    UpdateSettings,
    read_update,
    update_path,
    write_update,
)
from entrometer.runs.updates import require_usable
from tests.runs.damage import refused_share

SETTINGS = UpdateSettings(
    step=3,
    temperature=0.7,
    max_tokens=5,
    rewards=("answer", "format"),
    reward_weights=(1.0, 0.25),
)
LENGTHS = (2, 1, 5)


def tables(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=n).astype(np.float32) for n in LENGTHS)


def tokens(*lengths: int) -> tuple[np.ndarray, ...]:
    return tuple(np.arange(n, dtype=np.int64) + 2**31 - 1 - n for n in lengths)


@pytest.fixture
def batch() -> UpdateBatch:
    return UpdateBatch(
        row=np.array([0, 1, 7]),
        group=np.array([0, 0, 3]),
        prompt=np.array([2**63 - 1, 2**63 - 1, 0]),
        prompt_tokens=tokens(3, 3, 1),
        response_tokens=tokens(*LENGTHS),
        counted=(
            np.array([True, True]),
            np.array([False]),
            np.array([True, False, True, True, True]),
        ),
        rewards=np.array([[1.0, np.nan], [np.nan, np.nan], [0.5, -2.0]], np.float32),
        advantage=tables(0),
        S=tables(1),
        S_old=(np.array([-np.inf, np.nan], np.float32), *tables(2)[1:]),
        H=tables(3),
        settings=SETTINGS,
    )


def assert_same(first: UpdateBatch, second: UpdateBatch) -> None:
    assert first.columns.keys() == second.columns.keys()
    for name, column in first.columns.items():
        for x, y in zip(column, second.columns[name], strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == y.dtype, name
    assert first.settings == second.settings


@pytest.mark.parametrize("more", [(), ("alpha", "gamma"), ("S_ref", "S_engine")])
def test_round_trip_keeps_every_value(tmp_path, batch, more):
    batch = replace(batch, **{name: tables(4 + i) for i, name in enumerate(more)})
    write_update(tmp_path / "u.parquet", batch)
    assert_same(read_update(tmp_path / "u.parquet"), batch)


def test_reading_does_not_import_pandas(tmp_path, batch):
    # Half a second of every command, mistakes too.
    path = tmp_path / "update.parquet"
    write_update(path, batch)
    code = (
        "import sys; from entrometer.runs import read_update;"
        f"read_update({str(path)!r}); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_rows_give_the_same_bytes(tmp_path, batch):
    write_update(tmp_path / "a.parquet", batch)
    write_update(tmp_path / "b.parquet", read_update(tmp_path / "a.parquet"))
    first = (tmp_path / "a.parquet").read_bytes()
    assert (tmp_path / "b.parquet").read_bytes() == first


def test_rows_of_several_row_groups_come_back_in_order(tmp_path, batch):
    path = tmp_path / "u.parquet"
    write_update(path, batch)
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=2)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert_same(read_update(path), batch)


def test_reward_is_the_weighted_sum_of_what_was_given(batch):
    np.testing.assert_array_equal(batch.reward, [1.0, np.nan, 0.0])
    assert batch.count == 3


def test_files_sort_by_name_as_the_steps_do(tmp_path):
    names = [update_path(tmp_path, step).name for step in (9, 10, 123_456)]
    assert names == sorted(names)
    assert update_path(tmp_path, 9) == tmp_path / "updates" / "step-00000009.parquet"


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_cut_file_is_refused_by_name(tmp_path, batch, kept):
    path = tmp_path / "cut.parquet"
    write_update(path, batch)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DamagedFile, match=r"cut\.parquet.*train that step again"):
        read_update(path)


def test_no_altered_byte_goes_unseen(tmp_path, batch):
    """Flip each byte in turn: the file is refused, or reads as what was written."""
    path = tmp_path / "u.parquet"
    write_update(path, batch)
    assert refused_share(path, lambda: assert_same(read_update(path), batch)) > 0.5


def altered(path, about, drop=()):
    """Write a Parquet file that is nearly one of ours."""
    table = pq.ParquetFile(path).read().drop_columns(list(drop))
    metadata = {b"entrometer.update": json.dumps(about)}
    pq.write_table(table.replace_schema_metadata(metadata), path)


ABOUT = {"format": 1, "settings": asdict(SETTINGS)}


@pytest.mark.parametrize(
    ("about", "drop", "said"),
    [
        (ABOUT | {"format": 3}, (), "its format is 3, and this version reads (1, 2)"),
        ({}, (), "its format is None"),
        (7, (), "expected a JSON object"),
        (ABOUT, ("H",), "its columns are"),
        ({"format": 1}, (), "settings"),
        ({"format": 1, "settings": None}, (), "train that step again"),
        ({"format": 1, "settings": {"step": 3}}, (), "temperature"),
        (ABOUT | {"settings": asdict(SETTINGS) | {"colour": 1}}, (), "colour"),
        (ABOUT | {"settings": asdict(SETTINGS) | {"rewards": 1}}, (), "not iterable"),
    ],
)
def test_foreign_table_is_refused_by_name(tmp_path, batch, about, drop, said):
    path = tmp_path / "near.parquet"
    write_update(path, batch)
    altered(path, about, drop)
    with pytest.raises(DamagedFile, match=r"near\.parquet") as caught:
        read_update(path)
    assert said in str(caught.value)


def test_another_parquet_file_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"row": [1]}), path)
    with pytest.raises(DamagedFile, match=r"other\.parquet.*its format is None"):
        read_update(path)


def test_absent_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_update(tmp_path / "absent.parquet")


@pytest.mark.parametrize(
    "name", ["prompt_tokens", "response_tokens", "counted", "advantage", "S", "H"]
)
def test_columns_of_unlike_length_are_refused(batch, name):
    with pytest.raises(ShapeMismatch, match=name):
        replace(batch, **{name: getattr(batch, name)[:-1]})


@pytest.mark.parametrize("name", ["counted", "advantage", "S", "S_old", "H"])
def test_a_column_by_token_has_a_number_a_token(batch, name):
    column = getattr(batch, name)
    with pytest.raises(ShapeMismatch, match=name):
        replace(batch, **{name: (*column[:-1], column[-1][:-1])})


@pytest.fixture
def with_tool(batch) -> UpdateBatch:
    """A tool wrote the second token of the last response."""
    masks = [np.ones(n, bool) for n in LENGTHS]
    masks[2][1] = False
    return replace(batch, written=tuple(masks))


def test_what_the_policy_wrote_is_told_from_what_the_loss_counts(tmp_path, with_tool):
    write_update(tmp_path / "u.parquet", with_tool)
    read = read_update(tmp_path / "u.parquet")
    assert_same(read, with_tool)
    assert [c.tolist() for c in read.of_policy("counted")] == [
        [True, True],
        # Written and not counted, as a response that was cut at the limit.
        [False],
        [True, True, True, True],
    ]
    np.testing.assert_array_equal(read.of_policy("S")[2], read.S[2][[0, 2, 3, 4]])


def test_without_a_tool_every_column_is_the_policy_s(batch):
    for name in ("counted", "S", "H", "response_tokens"):
        assert batch.of_policy(name) is getattr(batch, name)


def test_a_response_of_which_the_policy_wrote_nothing_is_refused(with_tool):
    masks = (*with_tool.written[:1], np.array([False]), with_tool.written[2])
    with pytest.raises(InvalidValue, match="of which the policy wrote a token"):
        replace(with_tool, written=masks)


def test_no_number_of_a_tool_s_token_has_to_be_finite(batch, with_tool):
    S_old = (np.float32([-1, -1]), *batch.S_old[1:])
    undefined = [x.copy() for x in batch.S]
    undefined[2][1] = np.nan
    counted = tuple(np.ones(n, bool) for n in LENGTHS)
    fine = replace(with_tool, S=tuple(undefined), S_old=S_old, counted=counted)
    require_usable("u", fine)
    with pytest.raises(InvalidValue, match="finite numbers in S of"):
        require_usable("u", replace(fine, written=None))
