from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrometer.errors import ShapeMismatch
from entrometer.estimators import Tables
from entrometer.evaluation import Shard, read_shard, write_shard
from entrometer.evaluation.shards import measures_path, rollouts_path
from entrometer.runs import DamagedFile, Rollouts, Sampler


def row(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


@pytest.fixture
def shard() -> Shard:
    rollouts = Rollouts(
        prompt=row(2, 2, 5),
        prompt_tokens=(row(1), row(1), row(7, 8)),
        response_tokens=(row(4, 5), row(6), row(1, 2, 3)),
        seed=row(0, 1, 2),
        text=("a", "\x1b[2J", "c"),
        reward=np.array([1.0, 0.0, 0.5]),
        sampler=Sampler(
            name="transformers", temperature=1.0, max_tokens=3, model="m", version="5"
        ),
    )
    return Shard(
        rollouts=rollouts,
        tables=Tables(S=-np.arange(6.0), H=np.arange(6.0) / 7),
        format=np.array([0.0, 1.0, 0.25]),
        truncated=np.array([False, False, True]),
    )


def test_round_trip_keeps_every_value(tmp_path, shard):
    write_shard(tmp_path, 3, shard, "s")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "measures-0003.parquet",
        "part-0003.parquet",
    ]
    found = read_shard(tmp_path, 3, "s")
    np.testing.assert_array_equal(found.tables.S, shard.tables.S)
    np.testing.assert_array_equal(found.tables.H, shard.tables.H)
    np.testing.assert_array_equal(found.format, shard.format)
    np.testing.assert_array_equal(found.truncated, shard.truncated)
    np.testing.assert_array_equal(found.rollouts.reward, shard.rollouts.reward)
    assert found.rollouts.text == shard.rollouts.text


def test_columns_of_other_responses_are_refused(shard):
    with pytest.raises(ShapeMismatch, match="3 responses of 6 tokens"):
        replace(shard, tables=Tables(S=np.zeros(5), H=np.zeros(6)))


@pytest.mark.parametrize("gone", [rollouts_path, measures_path])
def test_half_a_shard_is_not_finished(tmp_path, shard, gone):
    write_shard(tmp_path, 0, shard, "s")
    gone(tmp_path, 0).unlink()
    assert read_shard(tmp_path, 0, "s") is None


def test_a_shard_of_something_else_is_refused(tmp_path, shard):
    write_shard(tmp_path, 0, shard, "s")
    with pytest.raises(DamagedFile, match="other weights or problems"):
        read_shard(tmp_path, 0, "t")


def test_files_of_two_attempts_are_no_pair(tmp_path, shard):
    write_shard(tmp_path, 0, shard, "s")
    other = replace(shard.rollouts, text=("x", "y", "z"))
    write_shard(tmp_path, 1, replace(shard, rollouts=other), "s")
    rollouts_path(tmp_path, 1).replace(rollouts_path(tmp_path, 0))
    with pytest.raises(DamagedFile, match=r"not those of part-0000\.parquet"):
        read_shard(tmp_path, 0, "s")


def altered_at(content: bytes, i: int) -> bytes:
    return content[:i] + bytes([content[i] ^ 0x10]) + content[i + 1 :]


def test_no_altered_byte_of_the_responses_goes_unseen(tmp_path, shard):
    """Their hash is kept, so the footer is no exception."""
    write_shard(tmp_path, 0, shard, "s")
    path = rollouts_path(tmp_path, 0)
    whole = path.read_bytes()
    for i in range(0, len(whole), len(whole) // 50):
        path.write_bytes(altered_at(whole, i))
        with pytest.raises(DamagedFile):
            read_shard(tmp_path, 0, "s")


def test_no_altered_byte_of_a_number_goes_unseen(tmp_path, shard):
    """The pages have checksums: refused, or read as what was written."""
    write_shard(tmp_path, 0, shard, "s")
    path = measures_path(tmp_path, 0)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    refused = []
    for i in range(0, len(whole) - footer, 3):
        path.write_bytes(altered_at(whole, i))
        try:
            found = read_shard(tmp_path, 0, "s")
        except DamagedFile:
            refused.append(i)
        else:
            for a, b in zip(found.tables, shard.tables, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(found.format, shard.format)
            np.testing.assert_array_equal(found.truncated, shard.truncated)
    assert 6 * len(refused) > len(whole) - footer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: t.replace_schema_metadata(None),
            "its format is None, and this version reads 1",
        ),
        (lambda t: t.drop_columns(["H"]), "its columns are"),
        (lambda t: t.slice(1), "do not have the tokens"),
    ],
)
def test_a_foreign_table_is_refused(tmp_path, shard, change, said):
    write_shard(tmp_path, 0, shard, "s")
    path = measures_path(tmp_path, 0)
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    with pytest.raises(DamagedFile, match=said):
        read_shard(tmp_path, 0, "s")


def test_metadata_that_is_no_object_is_refused(tmp_path, shard):
    write_shard(tmp_path, 0, shard, "s")
    table = pa.table({"format": [1.0]})
    path = measures_path(tmp_path, 0)
    pq.write_table(
        table.replace_schema_metadata({b"entrometer.evaluation": b"7"}), path
    )
    with pytest.raises(DamagedFile, match="expected a JSON object"):
        read_shard(tmp_path, 0, "s")
