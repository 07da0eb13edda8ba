"""Runs that a benchmark keeps."""

from functools import partial
from pathlib import Path

import pytest

from benchmarks.keeping import keeping

SETTING = "KEPT_AT"


@pytest.fixture
def kept_at(tmp_path, monkeypatch):
    monkeypatch.setenv(SETTING, str(tmp_path / "kept"))
    benchmark = tmp_path / "benchmark"
    benchmark.mkdir()
    (benchmark / "code.py").write_text("x = 1")
    return partial(keeping, SETTING, benchmark)


def cut_off(store):
    store.mkdir()
    (store / "half").touch()
    raise KeyboardInterrupt


def whole(store):
    store.mkdir()
    return {"lost": 0}


def never(store):
    raise AssertionError(store)


def test_what_was_found_is_not_made_again(kept_at):
    with kept_at() as kept:
        kept.once("run", whole)
    with kept_at() as kept:
        assert kept.once("run", never) == {"lost": 0}


def test_a_run_that_was_cut_off_begins_in_an_empty_folder(kept_at):
    with kept_at() as kept, pytest.raises(KeyboardInterrupt):
        kept.once("run", cut_off)
    with kept_at() as kept:
        assert kept.once("run", whole) == {"lost": 0}
        assert not list((kept.root / "run").iterdir())


def test_results_of_other_code_are_not_read(kept_at, tmp_path):
    with kept_at() as kept:
        kept.once("run", whole)
    Path(tmp_path / "benchmark" / "code.py").write_text("x = 2")
    with kept_at() as kept:
        assert not (kept.root / "run").exists()
