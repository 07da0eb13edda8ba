"""Runs are found by their files, with their state as of now."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.report.synthetic import KINDS
from benchmarks.view.made import SECRET, checkpoint, leaving, measured, training
from entrometer.errors import InvalidValue
from entrometer.report.read import read_runs
from entrometer.runs import hold, seal
from entrometer.runs.atomic import is_held
from entrometer.runs.untrusted import read_json
from entrometer.view.index import Index


def row(index, name):
    (entry,) = [e for e in index.runs() if e.name == name]
    return entry


def test_every_run_is_found_and_nothing_else(root, index):
    measured(root / "measured")
    training(root / "deep/er/trained", steps=4)
    measured(root / "deep/er/trained/evaluation/key")
    (root / "notes").mkdir()
    (root / "notes" / "config.json").write_text("{}")
    # A checkpoint has a config.json and a manifest as well.
    (root / "deep/er/trained/checkpoint-4/config.json").write_text("{}")
    names = {"measured", "deep/er/trained", "deep/er/trained/evaluation/key"}
    assert {entry.name for entry in index.runs()} == names


def test_a_row_says_what_was_measured_and_what_came_out(root, index):
    measured(root / "run")
    entry = row(index, "run")
    assert (entry.kind, entry.state) == ("measure", "complete")
    assert entry.title == "training-0000, checkpoint-8"
    assert "model tiny" in entry.facts
    assert "-0.017 [-0.030, -0.004] nats" in entry.headline


def test_a_run_is_kept_by_all_of_the_words_and_its_kind(root, index):
    entry = row(index, "run") if measured(root / "run") else None
    assert entry.matches("TINY entropy", "")
    assert entry.matches("", "measure")
    assert not entry.matches("tiny absent", "")
    assert not entry.matches("tiny", "training")


def test_a_training_is_complete_after_its_last_step(root, index):
    run = training(root / "run", steps=8, taken=4)
    assert row(index, "run").state == "incomplete"
    assert row(index, "run").headline == "4 of 8 steps"
    checkpoint(run, 8)
    assert row(index, "run").state == "complete"
    assert row(index, "run").headline == "8 of 8 steps"


def test_a_run_is_running_while_a_process_holds_it(root, index):
    run = training(root / "run", steps=8, taken=4)
    with hold(run):
        assert is_held(run)
        assert row(index, "run").state == "running"
    assert not is_held(run)
    assert row(index, "run").state == "incomplete"
    # To ask takes nothing away.
    with hold(run):
        pass


def test_an_experiment_that_was_stopped_is_incomplete(root, index):
    run = root / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps({"policy": "tiny"}))
    seal(run, about={"kind": "measure", "finished": False})
    assert row(index, "run").state == "incomplete"


def test_a_changed_run_is_read_again(root, index):
    run = measured(root / "run")
    before = row(index, "run")
    summary = {"title": "T", "sentences": ["Another result [1, 2]."], "warnings": []}
    (run / "summary.json").write_text(json.dumps(summary))
    after = row(index, "run")
    assert after.headline == "Another result [1, 2]."
    assert after.id == before.id


def test_a_run_that_was_deleted_is_gone(root, index):
    run = measured(root / "run")
    identity = row(index, "run").id
    shutil.rmtree(run)
    assert index.runs() == []
    assert index.run(identity) is None


def test_the_last_changed_is_first(root, index):
    run = training(root / "trained", steps=8, taken=4)
    other = measured(root / "measured")
    for path in (*run.iterdir(), *other.iterdir()):
        os.utime(path, (1e9, 1e9 if run in path.parents else 2e9))
    assert [e.name for e in index.runs()] == ["measured", "trained"]
    checkpoint(run, 8)
    os.utime(run / "checkpoint-8", (3e9, 3e9))
    first, _ = index.runs()
    assert (first.name, first.date) == ("trained", "2065-01-24 05:20")


def test_a_time_after_the_year_9999_is_no_date(root, index, monkeypatch):
    measured(root / "odd")
    training(root / "trained", steps=4)
    lstat = os.lstat

    # Not every file system can store such a time.
    def late(path):
        about = lstat(path)
        fields = {"st_mtime_ns": 10**21, "st_size": about.st_size, "st_mtime": 1e12}
        odd = root / "odd" in Path(path).parents
        return SimpleNamespace(**fields) if odd else about

    monkeypatch.setattr(os, "lstat", late)
    assert row(index, "odd").date == ""
    assert row(index, "trained").date.startswith("20")


def test_runs_are_found_in_eight_folders_of_any_name(root, index):
    measured(root / "1/2/3/4/5/6/7/8")
    measured(root / "a/b/c/d/e/f/g/h/i")
    for name in ("results", "updates", "passes"):
        measured(root / name / "run")
    run = measured(root / "run")
    measured(run / "results" / "inner")
    names = {"1/2/3/4/5/6/7/8", "results/run", "updates/run", "passes/run", "run"}
    assert {e.name for e in index.runs()} == names


def test_a_folder_that_is_no_run_is_read_once(root, index, monkeypatch):
    model = root / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    read = []

    def counting(path, *, limit):
        read.append(path)
        return read_json(path, limit=limit)

    monkeypatch.setattr("entrometer.view.index.read_json", counting)
    assert index.runs() == index.runs() == []
    assert read == [model / "config.json"]
    # It becomes a run without a change of its config.json.
    checkpoint(model, 4)
    assert [e.name for e in index.runs()] == ["model"]


def test_a_training_without_settings_has_no_report_and_is_not_listed(root, index):
    run = root / "trl"
    run.mkdir()
    checkpoint(run, 4)
    assert index.runs() == []
    with pytest.raises(InvalidValue, match=r"training run \(config.json and"):
        read_runs([run], KINDS)


def test_links_that_leave_the_directory_are_not_followed(root, index, tmp_path):
    leaving(root, tmp_path / "outside")
    entries = index.runs()
    assert {"link-summary.json", "link-config.json"} <= {e.name for e in entries}
    assert "link-run" not in {e.name for e in entries}
    assert SECRET not in repr(entries)


@pytest.mark.parametrize(
    "body",
    [
        {"sentences": 3},
        {"sentences": {"a": "b"}},
        {"sentences": [None, ["x"]], "title": []},
        {"kind": {}, "steps": "many", "checkpoints": {}, "date": 3, "about": []},
        {"policy": [], "task": {}, "prompts": "x", "losses": [1], "steps": True},
    ],
)
def test_files_of_other_types_than_expected_make_a_row(root, index, body):
    run = root / "run"
    (run / "results").mkdir(parents=True)
    for name in ("summary", "config", "about", "manifest"):
        (run / f"{name}.json").write_text(json.dumps(body | {"about": body}))
    assert [entry.name for entry in index.runs()] == ["run"]


def test_files_that_cannot_be_read_make_a_row(root, index):
    run = root / "run"
    (run / "results").mkdir(parents=True)
    (run / "summary.json").write_bytes(b"\xff{")
    os.mkfifo(run / "config.json")
    (run / "about.json").mkdir()
    assert [entry.kind for entry in index.runs()] == ["unknown"]


def test_anything_but_a_directory_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for name, got in (("file", "a file"), ("absent", "no such directory")):
        with pytest.raises(InvalidValue, match=f"got {got}; name"):
            Index(tmp_path / name, ())
