"""Runs that a benchmark keeps."""

import pytest

from benchmarks.ray_chaos.keeping import SETTING, keeping


@pytest.fixture
def setting(tmp_path, monkeypatch):
    monkeypatch.setenv(SETTING, str(tmp_path))


def cut_off(store):
    store.mkdir()
    (store / "half").touch()
    raise KeyboardInterrupt


def whole(store):
    store.mkdir()
    return {"lost": 0}


def never(store):
    raise AssertionError(store)


def test_what_was_found_is_not_made_again(setting):
    with keeping() as kept:
        kept.once("run", whole)
    with keeping() as kept:
        assert kept.once("run", never) == {"lost": 0}


def test_a_run_that_was_cut_off_begins_in_an_empty_folder(setting):
    with keeping() as kept, pytest.raises(KeyboardInterrupt):
        kept.once("run", cut_off)
    with keeping() as kept:
        assert kept.once("run", whole) == {"lost": 0}
        assert not list((kept.root / "run").iterdir())
