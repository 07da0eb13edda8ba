"""What a user sees of a store."""

import json

from entrometer.cli import main
from entrometer.engine import LocalEngine, quiet
from tests.engine.pieces import Hand, Piece


def filled(store):
    store.mkdir()
    works = [Piece("forward-0"), Piece("step-0"), Piece("step-1")]
    LocalEngine().run(works, worker=Hand, store=store, progress=quiet)
    return store


def test_results_are_listed_by_kind(tmp_path, capsys):
    assert main(["store", str(filled(tmp_path / "passes"))]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["passes", "results", "size", "seconds"]
    assert [row.split()[:2] for row in rows] == [["step", "2"], ["forward", "1"]]
    assert last == "0 files of 0 B: not needed, --collect deletes them"


def test_what_nothing_needs_is_deleted_only_if_asked(tmp_path, capsys):
    store = filled(tmp_path / "passes")
    unread = store / ".step-1.txt.snapshot"
    unread.write_text("snapshot")
    assert main(["store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unneeded"] == {"files": 1, "bytes": 8}
    assert unread.exists()
    assert main(["store", str(store), "--collect"]) == 0
    assert "1 files of 8 B: deleted" in capsys.readouterr().out
    assert not unread.exists()


def test_a_damaged_result_is_named_with_what_to_do(tmp_path, capsys):
    store = filled(tmp_path / "passes")
    assert main(["store", str(store), "--verify"]) == 0
    (store / "step-0.txt").write_text("other")
    capsys.readouterr()
    assert main(["store", str(store), "--verify"]) == 1
    told = capsys.readouterr().out
    assert "2 whole, 1 damaged, 0 without a hash" in told
    assert f"{store / 'step-0.txt'}; delete it, then resume the run" in told


def test_a_directory_that_is_no_store_is_refused(tmp_path, capsys):
    assert main(["store", str(tmp_path)]) == 2
    assert "expected a store" in capsys.readouterr().err
    assert main(["store"]) == 2
    assert "expected one directory of passes, got 0" in capsys.readouterr().err
