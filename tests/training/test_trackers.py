"""What is logged arrives in trackers, as their own readers see it."""

import json
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
from transformers.utils import logging

from entrometer.errors import InvalidValue
from entrometer.training import run as room
from entrometer.training import trackers as home
from entrometer.training.trackers import ShowProgress, trackers, without_bars
from tests.training.toy import CONFIG, quietly

INSTALLED = [name for name in ("tensorboard", "wandb") if find_spec(name)]
PROBES = {
    "entropy/token",
    "entropy/token_se",
    "effective_samples/tokens",
    "noise_scale/trace",
    "predicted_change/predicted",
    "predicted_change/observed_se",
}


@pytest.fixture(scope="module")
def tracked(tmp_path_factory) -> Path:
    """A run of two steps that reports to all trackers at once."""
    run = tmp_path_factory.mktemp("tracked") / "run"
    config = replace(
        CONFIG,
        report_to=",".join(INSTALLED) or "none",
        imitation=replace(CONFIG.imitation, steps=0),
        predict_every=1,
        predict_prompts=4,
    )
    with pytest.MonkeyPatch.context() as patched, quietly():
        patched.setenv("WANDB_MODE", "offline")
        patched.setenv("WANDB_SILENT", "true")
        patched.setenv("WANDB_DIR", str(run.parent))
        room.train(config, run)
        if "wandb" in INSTALLED:
            import wandb

            wandb.finish()
    return run


@pytest.fixture(scope="module")
def kept(tracked) -> dict[int, dict[str, float | None]]:
    """By step, what the run itself keeps."""
    state = json.loads((tracked / "checkpoint-2/trainer_state.json").read_text())
    return {row.pop("step"): row for row in state["log_history"]}


@pytest.fixture(scope="module")
def logged(kept) -> dict[int, dict[str, float]]:
    """The same, without what is undefined."""
    return {
        step: {name: value for name, value in row.items() if value is not None}
        for step, row in kept.items()
    }


def test_the_run_keeps_what_is_undefined(kept, logged):
    assert list(kept) == [1, 2]
    # One update does not tell its noise from its signal.
    assert kept[1]["noise_scale/B_simple"] is None
    assert set(logged[2]) >= PROBES


def test_tensorboard_has_every_metric_of_every_step(tracked, logged):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = (tracked / "runs").iterdir()
    read = EventAccumulator(str(events)).Reload()
    found = {
        (event.step, tag.removeprefix("train/")): event.value
        for tag in read.Tags()["scalars"]
        for event in read.Scalars(tag)
    }
    # Event files hold single precision.
    expected = {
        (s, n): np.float32(x) for s, row in logged.items() for n, x in row.items()
    }
    assert found == found | expected
    assert (1, "noise_scale/B_simple") not in found


def leveldb_records(data):
    """W&B's offline file: LevelDB's log behind 7 bytes. It has no reader of its own."""
    at, record = 7, b""
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def test_wandb_has_every_metric_of_every_step(tracked, logged):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = tracked.parent.glob("wandb/offline-run-*/run-*.wandb")
    records = [Record.FromString(data) for data in leveldb_records(path.read_bytes())]
    rows = [
        {
            "/".join(i.nested_key) or i.key: json.loads(i.value_json)
            for i in r.history.item
        }
        for r in records
    ]
    found = {
        (row["train/global_step"], name.removeprefix("train/")): value
        for row in rows
        for name, value in row.items()
        if "train/loss" in row
    }
    expected = {(s, n): x for s, row in logged.items() for n, x in row.items()}
    assert found == found | expected
    assert (1, "noise_scale/B_simple") not in found
    assert {r.run.display_name for r in records if r.HasField("run")} == {tracked.name}


def test_several_are_parted_by_commas(monkeypatch):
    known = ["tensorboard", "wandb", "trackio"]
    monkeypatch.setattr(home, "get_available_reporting_integrations", lambda: known)
    assert trackers("none") == []
    assert trackers("wandb") == ["wandb"]
    assert trackers("tensorboard,wandb") == ["tensorboard", "wandb"]


def test_a_mistyped_tracker_is_told_the_nearest_before_anything_is_done(tmp_path):
    config = replace(CONFIG, report_to="tensorbord")
    with pytest.raises(InvalidValue, match="Did you mean 'tensorboard'"):
        room.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr(home, "get_available_reporting_integrations", list)
    with pytest.raises(InvalidValue, match="package of report_to='wandb'"):
        trackers("wandb")


def told(logs, *, first=True):
    heard = []
    state = SimpleNamespace(is_world_process_zero=first, global_step=3, max_steps=9)
    callback = ShowProgress("Dr-GRPO", lambda *args: heard.append(args))
    callback.on_log(None, state, None, logs)
    return heard


def test_the_log_of_a_step_is_passed_on():
    assert told({"loss": 0.5}) == [("Dr-GRPO", 3, 9, {"loss": 0.5})]


@pytest.mark.parametrize("logs", [None, {"train_runtime": 3.0}])
def test_what_is_no_step_is_not(logs):
    assert told(logs) == []


def test_the_first_process_speaks_for_all():
    assert told({"loss": 0.5}, first=False) == []


def test_nobody_may_be_listening():
    state = SimpleNamespace(is_world_process_zero=True, global_step=1, max_steps=1)
    ShowProgress("imitation", None).on_log(None, state, None, {"loss": 0.5})


@pytest.mark.parametrize("shown", [True, False])
def test_bars_are_off_inside_and_as_they_were_after(shown, monkeypatch):
    monkeypatch.setattr(logging, "_tqdm_active", shown)
    were = datasets.are_progress_bars_disabled()
    with suppress(KeyError), without_bars():
        assert not logging.is_progress_bar_enabled()
        assert datasets.are_progress_bars_disabled()
        raise KeyError
    assert logging.is_progress_bar_enabled() == shown
    assert datasets.are_progress_bars_disabled() == were
