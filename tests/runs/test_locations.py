from pathlib import Path

import pytest

from entrometer.runs.locations import located, relative_path, relative_source


@pytest.mark.parametrize(
    ("path", "stored"),
    [("models/tiny", "../../models/tiny"), ("runs/a/sub", "./sub"), ("runs", "..")],
)
def test_a_path_is_stored_as_seen_from_the_run_and_found_again(path, stored, tmp_path):
    run = tmp_path / "runs" / "a"
    (tmp_path / path).mkdir(parents=True)
    run.mkdir(parents=True, exist_ok=True)
    assert relative_path(tmp_path / path, run) == stored
    assert located(stored, run) == str(tmp_path.resolve() / path)


def test_run_and_model_that_are_moved_together_stay_together(tmp_path):
    (tmp_path / "here" / "model").mkdir(parents=True)
    stored = relative_path(tmp_path / "here" / "model", tmp_path / "here" / "run")
    (tmp_path / "here").rename(tmp_path / "there")
    assert Path(located(stored, tmp_path / "there" / "run")).is_dir()


def test_a_run_behind_a_link_finds_what_lies_beside_its_target(tmp_path):
    (tmp_path / "far" / "run").mkdir(parents=True)
    (tmp_path / "far" / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "run")
    stored = relative_path(tmp_path / "far" / "model", tmp_path / "link")
    assert stored == "../model"
    for run in (tmp_path / "link", tmp_path / "far" / "run"):
        assert located(stored, run) == str(tmp_path.resolve() / "far" / "model")


@pytest.mark.parametrize("name", ["tiny", "smollm2", "owner/name@commit"])
def test_a_name_is_stored_as_it_is(name, tmp_path, monkeypatch):
    """Also if a folder has the name of a model that the package brings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert relative_source(name, tmp_path / "run") == name
    assert located(name, tmp_path / "run") == name


def test_a_relative_path_of_a_model_is_seen_from_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    assert relative_source("models/mine", Path("runs/a")) == "../../models/mine"
