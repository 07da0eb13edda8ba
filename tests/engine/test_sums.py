"""Sums whose bits do not depend on who adds them up."""

import pytest
import torch

from entrometer.engine.sums import added_up, running_sum
from entrometer.engine.vectors import open_vectors, write_vectors

GENERATOR = torch.Generator().manual_seed(0)
SUMMANDS = [{"x": torch.randn(50, generator=GENERATOR)} for _ in range(12)]
NAMES = [f"part-{i}" for i in range(12)]


class Dies(Exception):
    pass


def summed(path, *, dies_at=None, every=0.0, names=NAMES):
    computed = []

    def summand(i):
        if i == dies_at:
            raise Dies
        computed.append(i)
        return {"x": SUMMANDS[i]["x"].clone()}

    return running_sum(path, names, summand, every=every, placement="cpu"), computed


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_a_sum_that_was_cut_short_goes_on_to_the_same_bits(tmp_path, dies_at):
    whole, _ = summed(tmp_path / "whole")
    path = tmp_path / "sum"
    with pytest.raises(Dies):
        summed(path, dies_at=dies_at)
    again, computed = summed(path)
    assert computed == list(range(dies_at, 12))
    assert torch.equal(again["x"], whole["x"])


def test_a_snapshot_of_another_plan_is_not_gone_on_with(tmp_path):
    path = tmp_path / "sum"
    with pytest.raises(Dies):
        summed(path, dies_at=5, names=[f"other-{i}" for i in range(12)])
    _, computed = summed(path)
    assert computed == list(range(12))


def test_a_damaged_snapshot_costs_time_and_nothing_else(tmp_path):
    path = tmp_path / "sum"
    with pytest.raises(Dies):
        summed(path, dies_at=5)
    path.write_bytes(path.read_bytes()[:-7])
    again, computed = summed(path)
    assert computed == list(range(12))
    assert torch.equal(again["x"], summed(tmp_path / "whole")[0]["x"])


@pytest.mark.parametrize("dies_at", [(2, 0), (2, 1), (2, 2)])
def test_a_snapshot_that_was_half_written_over_counts_no_part_twice(
    tmp_path, monkeypatch, dies_at
):
    """Killed at any of the three files of the second snapshot: of x, of y, the head."""
    import entrometer.engine.vectors as vectors

    one_file, count = 100, [0, 0]
    write = vectors._write

    def killed(path, tensors, about, *, own=False):
        if tuple(count) == dies_at:
            raise Dies
        write(path, tensors, about, own=own)
        count[1] += 1
        if count[1] == 3:
            count[:] = count[0] + 1, 0

    def both(i):
        return {"x": SUMMANDS[i]["x"].clone(), "y": -SUMMANDS[i]["x"]}

    whole = running_sum(tmp_path / "whole", NAMES, both, every=60.0, placement="cpu")
    path = tmp_path / "sum"
    monkeypatch.setattr(vectors, "_write", killed)
    with pytest.raises(Dies):
        running_sum(path, NAMES, both, every=0.0, shard_bytes=one_file, placement="cpu")
    monkeypatch.setattr(vectors, "_write", write)
    again = running_sum(
        path, NAMES, both, every=0.0, shard_bytes=one_file, placement="cpu"
    )
    assert all(torch.equal(again[name], whole[name]) for name in "xy")


def test_no_snapshot_is_made_before_its_time(tmp_path):
    summed(tmp_path / "sum", every=60.0)
    assert not (tmp_path / "sum").exists()


def test_files_are_added_up_in_their_order(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(12)]
    for path, vector in zip(paths, SUMMANDS, strict=True):
        write_vectors(path, vector.items())
    expected = SUMMANDS[0]["x"].clone()
    for vector in SUMMANDS[1:]:
        expected += vector["x"]
    found = dict(added_up(paths, "vectors", "cpu"))
    assert torch.equal(found["x"], expected)
    with open_vectors(paths[0], "a vector", "cpu") as file:
        assert torch.equal(file["x"], SUMMANDS[0]["x"])
