import json
import os
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
    Rollouts,
    Sampler,
    read_rollouts,
    write_rollouts,
)
from tests.runs.damage import refused_share

SAMPLER = Sampler(
    name="transformers", temperature=0.7, max_tokens=5, model="m/é", version="5.0"
)


def row(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


@pytest.fixture
def rollouts() -> Rollouts:
    return Rollouts(
        prompt=row(3, 3, -1),
        prompt_tokens=(row(1), row(1), row(7, 0, 2**31 - 1)),
        response_tokens=(row(4, 5), row(6), row(1, 2, 3, 4, 5)),
        seed=row(0, 2**63 - 1, 5),
        text=("plain", "", "é 漢 😀 \x00\x1b[31m\r\n\u202e"),
        reward=np.array([1.0, np.nan, -0.0]),
        sampler=SAMPLER,
    )


def assert_same(first: Rollouts, second: Rollouts) -> None:
    for name in ("prompt", "seed", "reward", "length"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert getattr(first, name).dtype == getattr(second, name).dtype
    for name in ("prompt_tokens", "response_tokens"):
        for a, b in zip(getattr(first, name), getattr(second, name), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype == np.int64
    assert first.text == second.text
    assert first.sampler == second.sampler


def test_round_trip_keeps_every_value(tmp_path, rollouts):
    write_rollouts(tmp_path / "r.parquet", rollouts)
    assert_same(read_rollouts(tmp_path / "r.parquet"), rollouts)


def test_rows_of_several_row_groups_come_back_in_order(tmp_path, rollouts):
    path = tmp_path / "r.parquet"
    write_rollouts(path, rollouts)
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=2)
    assert pq.ParquetFile(path).num_row_groups == 2
    assert_same(read_rollouts(path), rollouts)


def test_lone_surrogates_become_replacement_characters(tmp_path, rollouts):
    """What a JSON answer can carry but UTF-8 cannot; a split pair is joined."""
    odd = replace(rollouts, text=("a\ud800b", "\udfff", "\ud83d\ude00"))
    write_rollouts(tmp_path / "r.parquet", odd)
    text = read_rollouts(tmp_path / "r.parquet").text
    assert text == ("a\ufffdb", "\ufffd", "😀")


def test_file_is_zstd_with_columns_that_any_reader_knows(tmp_path, rollouts):
    write_rollouts(tmp_path / "r.parquet", rollouts)
    file = pq.ParquetFile(tmp_path / "r.parquet")
    assert file.schema_arrow.field("response_tokens").type.value_type == pa.int32()
    assert file.schema_arrow.field("text").type == pa.string()
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    about = json.loads(file.schema_arrow.metadata[b"entrometer.rollouts"])
    assert about == {"format": 1, "sampler": asdict(SAMPLER)}


def test_directory_named_like_a_partition_adds_no_column(tmp_path, rollouts):
    (tmp_path / "step=3").mkdir()
    write_rollouts(tmp_path / "step=3" / "r.parquet", rollouts)
    assert_same(read_rollouts(tmp_path / "step=3" / "r.parquet"), rollouts)


def test_failed_write_keeps_the_old_file(tmp_path, rollouts, monkeypatch):
    path = tmp_path / "r.parquet"
    write_rollouts(path, rollouts)

    def cut(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        write_rollouts(path, rollouts.select(slice(1)))
    assert_same(read_rollouts(path), rollouts)
    assert os.listdir(tmp_path) == ["r.parquet"]


@pytest.mark.parametrize("kept", [0, 3, 100, -1])
def test_cut_file_is_refused_by_name(tmp_path, rollouts, kept):
    path = tmp_path / "cut.parquet"
    write_rollouts(path, rollouts)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DamagedFile, match=r"cut\.parquet.*sample again"):
        read_rollouts(path)


def test_no_altered_byte_goes_unseen(tmp_path, rollouts):
    """Flip each byte in turn: the file is refused, or reads as what was written."""
    path = tmp_path / "r.parquet"
    write_rollouts(path, rollouts)
    assert refused_share(path, lambda: assert_same(read_rollouts(path), rollouts)) > 0.5


def test_text_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no table at all, but long enough to be one")
    with pytest.raises(DamagedFile, match=r"notes\.txt.*magic bytes"):
        read_rollouts(path)


def altered(path, *, format=1, sampler=None, drop=None, as_type=None):
    """Write a Parquet file that is nearly one of ours."""
    table = pq.ParquetFile(path).read()
    about = {"format": format, "sampler": asdict(SAMPLER) | (sampler or {})}
    if drop:
        table = table.drop_columns([drop])
    if as_type:
        table = table.cast(
            pa.schema([f.with_type(as_type.get(f.name, f.type)) for f in table.schema])
        )
    metadata = {b"entrometer.rollouts": json.dumps(about)}
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "its format is 2, and this version reads 1"),
        ({"drop": "reward"}, "its columns are"),
        ({"as_type": {"reward": pa.float32()}}, "its columns are"),
        ({"sampler": {"temperature": 0.0}}, "temperature > 0"),
        ({"sampler": {"temperature": "hot"}}, "its sampler is"),
        ({"sampler": {"model": None}}, "its sampler is"),
        ({"sampler": {"colour": "red"}}, "its sampler is"),
    ],
)
def test_foreign_table_is_refused_by_name(tmp_path, rollouts, change, said):
    path = tmp_path / "near.parquet"
    write_rollouts(path, rollouts)
    altered(path, **change)
    with pytest.raises(DamagedFile, match=r"near\.parquet") as caught:
        read_rollouts(path)
    assert said in str(caught.value)


def test_table_without_our_mark_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"prompt": [1]}), path)
    with pytest.raises(DamagedFile, match="something else: its format is None"):
        read_rollouts(path)


def test_mark_that_is_no_object_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    table = pa.table({"prompt": [1]})
    pq.write_table(table.replace_schema_metadata({b"entrometer.rollouts": b"7"}), path)
    with pytest.raises(DamagedFile, match="something else"):
        read_rollouts(path)


def test_absent_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_rollouts(tmp_path / "absent.parquet")


def test_counts(rollouts):
    assert rollouts.count == 3
    assert rollouts.tokens == 8
    np.testing.assert_array_equal(rollouts.length, [2, 1, 5])


@pytest.mark.parametrize("index", [row(2, 0), np.array([True, False, True])])
def test_select_then_concatenate(rollouts, index):
    picked = rollouts.select(index)
    order = np.arange(3)[index]
    assert picked.text == tuple(rollouts.text[i] for i in order)
    np.testing.assert_array_equal(picked.seed, rollouts.seed[order])
    parts = [rollouts.select(row(i)) for i in order]
    assert_same(Rollouts.concatenate(parts), picked)


def test_concatenate_refuses_two_samplers(rollouts):
    other = replace(rollouts, sampler=replace(SAMPLER, temperature=1.0))
    with pytest.raises(InvalidValue, match="one sampler"):
        Rollouts.concatenate([rollouts, other])


@pytest.mark.parametrize("name", ["prompt_tokens", "response_tokens"])
@pytest.mark.parametrize("bad", [row(), row(-100), row(2**31)])
def test_impossible_tokens_are_refused(rollouts, name, bad):
    with pytest.raises(InvalidValue, match=rf"{name}\[1\]"):
        replace(rollouts, **{name: (row(1), bad, row(1))})


def test_no_responses_are_refused(rollouts):
    with pytest.raises(InvalidValue, match="at least one response"):
        rollouts.select(slice(0))


def test_columns_of_unlike_length_are_refused(rollouts):
    with pytest.raises(ShapeMismatch, match="'text': 2"):
        replace(rollouts, text=("a", "b"))


@pytest.mark.parametrize(
    "setting",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"max_tokens": 0},
    ],
)
def test_sampler_that_is_no_policy_is_refused(setting):
    with pytest.raises(InvalidValue, match="out of range"):
        replace(SAMPLER, **setting)


def test_room_needs_no_torch():
    code = "import sys, entrometer.runs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def with_tool(rollouts) -> Rollouts:
    """A tool wrote the second token of the first response, and most of the last."""
    masks = ([True, False], [True], [False, True, False, False, True])
    written = tuple(np.array(mask) for mask in masks)
    return replace(rollouts, written=written)


def test_a_response_is_as_long_as_what_the_policy_wrote(with_tool):
    assert with_tool.length.tolist() == [1, 1, 2]
    assert with_tool.full_length.tolist() == [2, 1, 5]
    assert with_tool.tokens == 4
    assert [t.tolist() for t in with_tool.written_tokens] == [[4], [6], [2, 5]]


def test_who_wrote_a_token_is_stored_only_where_it_was_not_the_policy(
    tmp_path, rollouts, with_tool
):
    write_rollouts(tmp_path / "plain", rollouts)
    write_rollouts(tmp_path / "tool", with_tool)
    plain, tool = (pq.ParquetFile(tmp_path / n).schema_arrow for n in ("plain", "tool"))
    assert [n for n in tool.names if n not in plain.names] == ["written"]
    read = read_rollouts(tmp_path / "tool")
    assert_same(read, with_tool)
    for mask, expected in zip(read.written, with_tool.written, strict=True):
        np.testing.assert_array_equal(mask, expected)
        assert mask.dtype == bool
    assert read_rollouts(tmp_path / "plain").written is None


def test_parts_without_a_tool_were_written_by_the_policy(rollouts, with_tool):
    both = Rollouts.concatenate([rollouts, with_tool.select(slice(1, 3))])
    assert both.length.tolist() == [2, 1, 5, 1, 2]
    assert [m.all() for m in both.written] == [True, True, True, True, False]
    assert Rollouts.concatenate([rollouts, rollouts]).written is None


def test_an_engine_s_log_probs_are_of_the_policy_s_tokens(with_tool):
    logprobs = tuple(np.zeros(n) for n in with_tool.length)
    assert replace(with_tool, engine_logprobs=logprobs).engine_logprobs == logprobs
    logprobs = tuple(np.zeros(n) for n in with_tool.full_length)
    with pytest.raises(ShapeMismatch, match="each of the 1 tokens that the policy"):
        replace(with_tool, engine_logprobs=logprobs)


@pytest.mark.parametrize(
    "mask", [np.array([True]), np.array([False, False]), np.array([1, 0])]
)
def test_masks_of_another_shape_or_kind_or_of_nothing_are_refused(rollouts, mask):
    masks = [np.ones(n, bool) for n in rollouts.full_length]
    with pytest.raises(InvalidValue, match=r"expected written\[0\] to have"):
        replace(rollouts, written=(mask, *masks[1:]))
