"""Work in this process."""

import json

import pytest

from entrometer.engine import LocalEngine, StoreTrouble, quiet, read_log
from entrometer.engine.manifest import LOG
from tests.engine.pieces import Hand, Piece


def run(pieces, store, progress=quiet):
    return LocalEngine().run(pieces, worker=Hand, store=store, progress=progress)


def test_each_piece_once_in_the_order_asked_for(tmp_path):
    a = Piece("a")
    b = Piece("b", (a,))
    rows = run([a, b, a], tmp_path)
    assert [row.name for row in rows] == ["a.txt", "b.txt"]
    assert (tmp_path / "b.txt").read_text() == "b(a())"
    assert read_log(tmp_path) == rows
    assert run([a, b], tmp_path) == []


def test_progress_counts_cost_pieces_and_tokens(tmp_path):
    told = []
    run([Piece("a", cost=3), Piece("b")], tmp_path, told.append)
    assert [(s.done, s.total, s.left, s.tokens) for s in told] == [
        (3, 4, 1, 10),
        (4, 4, 0, 20),
    ]


def test_the_first_error_ends_it_and_what_was_done_stays(tmp_path):
    pieces = [Piece("a"), Piece("b", fault="always"), Piece("c")]
    with pytest.raises(RuntimeError, match="b does not want to"):
        run(pieces, tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.txt")) == ["a.txt"]


def test_a_line_that_was_cut_short_is_passed_over(tmp_path):
    run([Piece("a")], tmp_path)
    with open(tmp_path / LOG, "a") as file:
        file.write(json.dumps({"name": "b"})[:-3])
    assert [row.name for row in read_log(tmp_path)] == ["a.txt"]
    run([Piece("c")], tmp_path)
    assert [row.name for row in read_log(tmp_path)] == ["a.txt", "c.txt"]


def test_a_full_disk_is_named_with_what_to_do(tmp_path):
    with pytest.raises(StoreTrouble, match=r"No space left.*make room.*--resume"):
        run([Piece("a", fault="disk")], tmp_path)


def test_a_store_that_may_not_be_written_to_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tests.engine.pieces.atomic_write", refuse)
    with pytest.raises(StoreTrouble, match=r"Permission denied.*make it writable"):
        run([Piece("a")], tmp_path)
