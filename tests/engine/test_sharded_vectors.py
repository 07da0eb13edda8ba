"""Vectors that a group of processes writes, and any number of processes reads."""

import pytest
import torch
from safetensors import safe_open

from entrometer.calculus import dot
from entrometer.calculus.sharded import divided, mesh_of_group, rows_of, whole
from entrometer.engine.vectors import open_vectors, result_files, write_vectors
from tests.groups import in_group

# Fewer rows than processes, and numbers of rows that they do not divide.
SHAPES = {"a": (7, 3), "b": (2,), "c": (8, 2, 2), "d": (1, 5)}


def vector():
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(shape, generator=generator) for n, shape in SHAPES.items()}


def write(path, size):
    mesh = mesh_of_group(size, "cpu")
    shares = {name: divided(x, mesh) for name, x in vector().items()}
    write_vectors(path, shares.items(), about={"kappa": "0.5"}, shard_bytes=40)
    return dot(shares, shares).item()


def read(path, size):
    with open_vectors(path, "a vector", mesh_of_group(size, "cpu")) as file:
        found = {name: file[name] for name in file.names()}
        about = dict(file.about)
    some = {name: rows_of(x).numpy() for name, x in found.items()}
    return some, {name: whole(x).numpy() for name, x in found.items()}, about


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    path = folder / "v.safetensors"
    return path, in_group(folder, 4, write, path, 4)


def test_each_of_four_processes_writes_its_rows(written):
    path, norms = written
    # The head, and as many shards of every process: no tensor is split by bytes.
    assert len(result_files(path)) == 9
    with safe_open(path, "pt") as head:
        assert list(head.keys()) == []
    expected = dot(vector(), vector()).item()
    assert all(x == pytest.approx(expected, rel=1e-14) for x in norms)
    assert len(set(norms)) == 1


def test_one_process_reads_them_to_the_bit(written):
    with open_vectors(written[0], "a vector", "cpu") as file:
        assert dict(file.about) == {"kappa": "0.5"}
        for name, x in vector().items():
            assert torch.equal(file[name], x)


@pytest.mark.parametrize("size", [2, 3])
def test_other_groups_read_them_to_the_bit(written, tmp_path, size):
    members = in_group(tmp_path, size, read, written[0], size)
    for name, x in vector().items():
        rows = [some[name] for some, _, _ in members]
        # Each has its own rows, all of them in the group's order.
        assert torch.equal(torch.cat([torch.from_numpy(r) for r in rows]), x)
        assert all(len(r) <= -(-len(x) // size) for r in rows)
        assert all((every[name] == x.numpy()).all() for _, every, _ in members)
    assert all(about == {"kappa": "0.5"} for _, _, about in members)


def test_a_group_reads_what_one_process_wrote(tmp_path):
    path = tmp_path / "v.safetensors"
    write_vectors(path, vector().items(), shard_bytes=100)
    members = in_group(tmp_path, 2, read, path, 2)
    for name, x in vector().items():
        assert all((every[name] == x.numpy()).all() for _, every, _ in members)
