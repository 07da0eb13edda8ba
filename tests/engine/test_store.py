"""What a store holds, and what in it nothing needs."""

import json
import os

import pytest
import torch

from entrometer.engine import LocalEngine, Manifest, quiet
from entrometer.engine.manifest import LOG
from entrometer.engine.store import (
    ABANDONED_SECONDS,
    garbage,
    kinds,
    remove,
    verified,
)
from entrometer.engine.vectors import open_vectors, write_vectors
from tests.engine.pieces import Hand, Piece


def run(works, store):
    return LocalEngine().run(works, worker=Hand, store=store, progress=quiet)


def summed():
    """Two pieces of a result."""
    parts = tuple(Piece(f"part-{i}", part_of="whole-0.txt") for i in range(2))
    return [*parts, Piece("whole-0", parts, pieces=parts)]


def files(store):
    return sorted(path.name for path in store.iterdir())


def test_pieces_go_once_what_they_are_of_is_logged(tmp_path):
    rows = run(summed(), tmp_path)
    assert [row.name for row in rows] == ["part-0.txt", "part-1.txt", "whole-0.txt"]
    assert files(tmp_path) == [LOG, "whole-0.txt"]
    assert [row.part_of for row in rows] == ["whole-0.txt", "whole-0.txt", ""]
    assert garbage(tmp_path) == []


def test_pieces_stay_while_what_they_are_of_is_missing(tmp_path):
    *parts, _ = summed()
    run(parts, tmp_path)
    assert garbage(tmp_path) == []
    assert [k.kind for k in kinds(tmp_path)] == ["part"]


def test_a_driver_killed_before_it_deletes_pieces_leaves_garbage(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "remove", lambda *_: None)
        run(summed(), tmp_path)
    found = garbage(tmp_path)
    assert [path.name for path in found] == ["part-0.txt", "part-1.txt"]
    remove(found)
    assert files(tmp_path) == [LOG, "whole-0.txt"]


@pytest.mark.parametrize("age", [0.0, ABANDONED_SECONDS + 60])
def test_unfinished_files_are_garbage_once_nobody_writes_them(tmp_path, age):
    run([Piece("whole-0")], tmp_path)
    names = [".whole-1.txt.0011.tmp", ".seen-00", "step-1.00000.safetensors"]
    for name in names:
        (tmp_path / name).touch()
        then = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (then, then))
    assert [p.name for p in garbage(tmp_path)] == (sorted(names) if age else [])


def test_a_snapshot_is_needed_until_its_sum_is_there(tmp_path):
    run([Piece("whole-0")], tmp_path)
    for name in ("whole-0.txt", "whole-1.txt"):
        write_vectors(
            tmp_path / f".{name}.snapshot",
            [("a", torch.ones(4)), ("b", torch.ones(4))],
            shard_bytes=16,
        )
    found = [path.name for path in garbage(tmp_path)]
    assert len(found) == 3
    assert all(name.startswith(".whole-0.txt") for name in found)
    remove(garbage(tmp_path))
    with open_vectors(tmp_path / ".whole-1.txt.snapshot", "a sum", "cpu") as file:
        assert file.names() == ["a", "b"]


def test_killed_at_any_deletion_no_result_is_damaged(tmp_path, monkeypatch):
    parts = [("a", torch.ones(4)), ("b", torch.ones(4))]

    def store():
        for path in tmp_path.iterdir():
            path.unlink()
        for name in ("step-0.safetensors", "step-1.safetensors"):
            write_vectors(tmp_path / name, parts, shard_bytes=16)
        whole = {"name": "step-1.safetensors", "part_of": "step-0.safetensors"}
        row = {"kind": "step", "tokens": 0, "seconds": 0.0, "where": "here"}
        (tmp_path / LOG).write_text(json.dumps(row | whole) + "\n")

    store()
    count = len(garbage(tmp_path))
    assert count == 3
    for killed_at in range(count):
        store()
        left = iter(range(killed_at))

        def unlink(path, missing_ok=False, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            os.unlink(path)

        with monkeypatch.context() as patched:
            patched.setattr("pathlib.Path.unlink", unlink)
            with pytest.raises(KeyboardInterrupt):
                remove(garbage(tmp_path))
        for path in tmp_path.glob("step-?.safetensors"):
            with open_vectors(path, "a step", "cpu") as file:
                assert torch.equal(file["b"], torch.ones(4))


def test_damaged_and_unlisted_results_are_named(tmp_path):
    run([Piece("a-0"), Piece("a-1")], tmp_path)
    (tmp_path / "a-1.txt").write_text("other")
    (tmp_path / "b-0.txt").write_text("unknown")
    assert verified(tmp_path) == (["a-0.txt"], ["a-1.txt"], ["b-0.txt"])


def test_what_a_run_deletes_meanwhile_is_passed_over(tmp_path, monkeypatch):
    run([Piece("a-0"), Piece("a-1")], tmp_path)
    before = os.listdir(tmp_path)
    (tmp_path / "a-1.txt").unlink()
    monkeypatch.setattr(os, "listdir", lambda _: [*before, ".b-0.txt.tmp"])
    assert verified(tmp_path) == (["a-0.txt"], [], [])
    assert garbage(tmp_path) == []
    (kind,) = kinds(tmp_path)
    assert kind.bytes == (tmp_path / "a-0.txt").stat().st_size
