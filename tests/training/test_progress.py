from contextlib import suppress
from types import SimpleNamespace

import datasets
import pytest
from transformers.utils import logging

from entrometer.training.trackers import ShowProgress, without_bars


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
