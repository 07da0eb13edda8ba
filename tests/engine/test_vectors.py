"""Files of tensors by name."""

import json

import pytest
import torch

from entrometer.engine.vectors import (
    open_vectors,
    parts,
    remove_vectors,
    write_vectors,
)
from entrometer.runs import DamagedFile

VECTOR = {name: torch.arange(6.0) + i for i, name in enumerate("abcd")}


def read(path):
    with open_vectors(path, "a vector", "cpu") as file:
        return {name: file[name] for name in file.names()}, dict(file.about)


@pytest.mark.parametrize(("limit", "files"), [(1 << 30, 1), (60, 3), (1, 5)])
def test_over_a_size_there_are_several_files_behind_one(tmp_path, limit, files):
    path = tmp_path / "v.safetensors"
    write_vectors(path, VECTOR.items(), about={"kappa": "0.5"}, shard_bytes=limit)
    assert len(list(tmp_path.iterdir())) == files
    found, about = read(path)
    assert about == {"kappa": "0.5"}
    assert all(torch.equal(found[n], VECTOR[n]) for n in VECTOR)
    assert found.keys() == VECTOR.keys()


def test_a_writer_that_dies_leaves_no_file_under_the_name(tmp_path):
    def cut_short():
        yield from list(VECTOR.items())[:3]
        raise KeyboardInterrupt

    path = tmp_path / "v.safetensors"
    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, cut_short(), shard_bytes=30)
    assert not path.exists()
    write_vectors(path, VECTOR.items(), shard_bytes=30)
    assert read(path)[0].keys() == VECTOR.keys()


def test_several_vectors_share_a_file(tmp_path):
    path = tmp_path / "v.safetensors"
    write_vectors(path, parts(first=VECTOR, second={"a.b/c": torch.ones(1)}))
    with open_vectors(path, "vectors", "cpu") as file:
        first, second = file.part("first"), file.part("second")
    assert first.keys() == VECTOR.keys()
    assert torch.equal(first["d"], VECTOR["d"])
    assert list(second) == ["a.b/c"]


def test_a_part_that_is_not_there_is_told(tmp_path):
    path = tmp_path / "v.safetensors"
    write_vectors(path, parts(first=VECTOR))
    with (
        pytest.raises(DamagedFile, match=r"expected vectors in .*\('secnd'\)"),
        open_vectors(path, "vectors", "cpu") as file,
    ):
        file.part("secnd")


def test_a_file_with_a_damaged_or_missing_shard_is_refused(tmp_path):
    path = tmp_path / "v.safetensors"
    write_vectors(path, VECTOR.items(), shard_bytes=30)
    (tmp_path / "v.00001.safetensors").write_bytes(b"no")
    with pytest.raises(DamagedFile, match="expected a vector in"):
        read(path)
    (tmp_path / "v.00001.safetensors").unlink()
    with pytest.raises(DamagedFile, match=r"v.00001.safetensors is missing"):
        read(path)


def test_a_shard_that_was_written_over_is_not_taken_for_its_own(tmp_path):
    """As a writer leaves it that dies on its way to the head."""
    path = tmp_path / "v.safetensors"

    def cut_short():
        yield from list(VECTOR.items())[:2]
        raise KeyboardInterrupt

    write_vectors(path, VECTOR.items(), about={"contains": "1"}, shard_bytes=30)
    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, cut_short(), about={"contains": "2"}, shard_bytes=30)
    with pytest.raises(DamagedFile, match=r"v.00000.safetensors belongs to another"):
        read(path)


def test_all_files_of_a_vector_are_removed_and_no_other(tmp_path):
    for name in ("v", "w"):
        path = tmp_path / f"{name}.safetensors"
        write_vectors(path, VECTOR.items(), shard_bytes=30)
    remove_vectors(tmp_path / "v.safetensors")
    assert {path.name[0] for path in tmp_path.iterdir()} == {"w"}
    remove_vectors(tmp_path / "v.safetensors")


def test_a_shard_is_looked_for_beside_its_file_only(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.ones(1)}, tmp_path / "secret.safetensors")
    inside = tmp_path / "store"
    inside.mkdir()
    head = inside / "v.safetensors"
    about = {"shards": '["../secret.safetensors"]'}
    save_file({}, head, metadata={"about": json.dumps(about)})
    with pytest.raises((DamagedFile, FileNotFoundError)):
        read(head)


def test_the_same_vectors_are_the_same_bytes(tmp_path):
    about = dict.fromkeys("hgfedcba", "1")
    for number in range(4):
        path = tmp_path / f"{number}.safetensors"
        write_vectors(path, VECTOR.items(), about=about)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
