"""A Parquet file is decoded only if its pages show that it stays small."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.runs import DamagedFile
from entrometer.runs.parquet import as_numpy, lists_of, read_parquet
from entrometer.runs.parquet_pages import extent

MIXED = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "b": pa.array(["x", "yy", "x"]),
        "c": pa.array([[1.0], [], [2.0, 3.0]], lists_of(pa.float64())),
        "d": pa.array([True, None, False]),
    },
    metadata={"k": "v"},
)


def read(path, **settings):
    return read_parquet(
        path, lambda table: table, expected="x", remedy="copy it", **settings
    )


def pages(path):
    with open(path, "rb") as file:
        return extent(file, pq.read_metadata(path))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_tables_of_every_encoding_come_back(tmp_path, version, compression, dictionary):
    path = tmp_path / "a.parquet"
    pq.write_table(
        MIXED,
        path,
        data_page_version=version,
        compression=compression,
        use_dictionary=dictionary,
        row_group_size=2,
        write_page_checksum=True,
    )
    assert read(path).equals(MIXED, check_metadata=True)
    # An empty list takes an entry: 4 in the column c.
    assert pages(path)[:2] == (3, 3 + 3 + 4 + 3)


def test_a_table_without_rows_comes_back(tmp_path):
    pq.write_table(MIXED.slice(0, 0), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").num_rows == 0


def test_many_pages_are_counted(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.random.default_rng(0).random(50_000)})
    pq.write_table(table, path, data_page_size=1000, use_dictionary=False)
    found = pages(path)
    assert found.values == 50_000
    assert found.bytes >= 400_000
    assert read(path).equals(table)


def bomb(path, values):
    zeros = pa.array(np.zeros(values, np.int32))
    lists = pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), zeros)
    pq.write_table(pa.table({"a": lists}), path, compression="zstd")


def test_equal_values_that_take_no_room_are_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    bomb(path, 20_000_000)
    assert path.stat().st_size < 10_000
    with pytest.raises(DamagedFile, match=r"bomb\.parquet.*decode to 20000000 values"):
        read(path)


def test_pages_that_hold_more_than_the_footer_says_are_refused(tmp_path):
    path = tmp_path / "lies.parquet"
    bomb(path, 1_000_000)
    raw = path.read_bytes()
    # The number as Thrift's compact protocol has it: zigzag, seven bits per byte.
    number = bytes([0x80, 0x89, 0x7A])
    at = raw.rindex(number)
    assert at > len(raw) - int.from_bytes(raw[-8:-4], "little") - 8, "in the footer"
    lies = raw.replace(number, bytes([0x82, 0x80, 0x00]))
    kept = lies[: raw.index(number) + 3].replace(bytes([0x82, 0x80, 0x00]), number)
    path.write_bytes(kept + lies[len(kept) :])
    with pytest.raises(DamagedFile, match=r"lies\.parquet"):
        read(path)


def test_one_long_text_in_many_rows_is_refused(tmp_path):
    path = tmp_path / "texts.parquet"
    pq.write_table(
        pa.table({"a": pa.array(["x" * 10**6]).take(np.zeros(1000, np.int64))}),
        path,
        compression="zstd",
    )
    with pytest.raises(DamagedFile, match="hold texts of more than"):
        read(path)


def test_rows_that_become_objects_are_limited(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.zeros(300_000)}), path)
    assert read(path).num_rows == 300_000
    with pytest.raises(DamagedFile, match="claim 300000 rows"):
        read(path, as_objects=True)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a"]).dictionary_encode(),
        pa.array([{"a": 1}]),
        pa.array([["a"]]),
        pa.array([b"a"]),
        pa.array(["a"], pa.large_string()),
    ],
)
def test_columns_of_no_kind_that_is_written_are_refused(tmp_path, column):
    pq.write_table(pa.table({"a": column}), tmp_path / "a.parquet")
    with pytest.raises(DamagedFile, match="its column 'a' is of type"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_never_end_in_another_error(tmp_path, seed):
    path = tmp_path / "a.parquet"
    pq.write_table(MIXED, path, compression="zstd", write_page_checksum=True)
    raw = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    for place in rng.integers(len(raw), size=3):
        raw[place] ^= int(rng.integers(1, 256))
    path.write_bytes(raw)
    with suppress(DamagedFile):
        read(path)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 2, 3]), np.array([1, 2, 3])),
        (pa.array([1.5], pa.float32()), np.array([1.5], np.float32)),
        (pa.array([True, False, True])[1:], np.array([False, True])),
        (pa.chunked_array([[1], [2, 3]]), np.array([1, 2, 3])),
        (pa.chunked_array([], pa.float64()), np.array([], np.float64)),
        (pa.array([1, None]), np.array([1.0, np.nan])),
        (pa.array(["a"]), np.array(["a"], object)),
    ],
)
def test_a_column_is_an_array_of_its_type(column, expected):
    found = as_numpy(column)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
