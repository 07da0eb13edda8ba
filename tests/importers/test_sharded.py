"""Files written piece by piece have the bytes of the libraries' own."""

import pytest
import torch
from safetensors.torch import save_file

from entrometer.importers.sharded import (
    FlatPieces,
    ShardedTensor,
    mapped,
    write_safetensors,
)


def whole(dtype, *shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def in_pieces(tensor, dim=0, parts=3):
    pieces = tuple(tensor.tensor_split(parts, dim))
    return ShardedTensor(pieces, tensor.shape, dim)


TENSORS = {
    "z.weight": whole(torch.float32, 7, 5),
    "b.weight": whole(torch.bfloat16, 3, 4),
    "a.bias": whole(torch.float32, 11),
    "h": whole(torch.float16, 2, 2),
    "d": whole(torch.float64, 5),
    "count": whole(torch.int64, 4),
    "mask": whole(torch.bool, 6),
    "empty": whole(torch.float32, 0, 3),
}


@pytest.mark.parametrize("dim", [0, -1])
def test_safetensors_have_the_bytes_of_the_library(tmp_path, dim):
    sharded = {name: in_pieces(t, dim) for name, t in TENSORS.items()}
    write_safetensors(tmp_path / "own", sharded)
    save_file(TENSORS, tmp_path / "theirs", metadata={"format": "pt"})
    assert (tmp_path / "own").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_a_saved_mapping_has_the_bytes_of_the_tensors_themselves(tmp_path):
    names = list(TENSORS)
    views = mapped(tmp_path / "scratch", [in_pieces(TENSORS[n]) for n in names])
    torch.save(TENSORS, tmp_path / "a.pt")
    (tmp_path / "again").mkdir()
    torch.save(dict(zip(names, views, strict=True)), tmp_path / "again" / "a.pt")
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "again/a.pt").read_bytes()


def test_pieces_of_another_width_are_widened_as_by_cat(tmp_path):
    pieces = whole(torch.bfloat16, 4), whole(torch.float32, 3)
    write_safetensors(tmp_path / "own", {"a": ShardedTensor(pieces, torch.Size([7]))})
    save_file({"a": torch.cat(pieces)}, tmp_path / "theirs", metadata={"format": "pt"})
    assert (tmp_path / "own").read_bytes() == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize(("begin", "end"), [(0, 9), (2, 3), (3, 8), (0, 0), (7, 99)])
def test_a_part_of_flat_pieces_is_that_of_the_whole(begin, end):
    pieces = [whole(torch.float32, n) + 10 * n for n in (3, 0, 4, 2)]
    parts = FlatPieces(pieces).part(begin, end)
    assert all(part.numel() for part in parts)
    found = torch.cat(parts) if parts else torch.empty(0)
    assert torch.equal(found, torch.cat(pieces)[begin:end])


@pytest.mark.parametrize(
    "piece",
    ["text", torch.ones(3).to_sparse(), torch.ones(3, device="meta"), torch.ones(2)],
)
def test_what_is_no_piece_is_refused(piece):
    with pytest.raises((TypeError, ValueError), match=r"(?i)expected"):
        ShardedTensor((piece,), torch.Size([3]))
