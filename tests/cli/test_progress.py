import pytest

from entrometer.cli import progress
from entrometer.cli.progress import Ticker


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_follows_from_what_was_done_since_the_first_call(clock, capsys):
    """A resumed run begins at 50, which says nothing about its rate."""
    ticker = Ticker()
    ticker.tick("work", 50, 100, "")
    clock[0] = 20.0
    ticker.tick("work", 60, 100, "note")
    assert capsys.readouterr().err.splitlines()[-1] == "work 60/100, 1:20 left: note"


def test_plain_lines_come_now_and_then_and_at_the_end(clock, capsys):
    ticker = Ticker()
    for done in range(1, 101):
        clock[0] = done * 0.5
        ticker.tick("work", done, 100, "")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 7
    assert lines[-1].startswith("work 100/100")


def test_training_shows_the_metrics_that_people_watch(clock, capsys):
    clock[0] = 100.0
    metrics = {"reward": 0.5, "entropy/token": 0.25, "epoch": 3.0, "loss": None}
    Ticker().training("Dr-GRPO", 1, 2, metrics)
    assert capsys.readouterr().err == "Dr-GRPO 1/2: reward 0.5, entropy 0.25\n"


def test_work_is_shown_as_a_share_with_the_time_left(clock, capsys):
    clock[0] = 100.0
    ticker = Ticker()
    ticker.work("measure", 10.0, 40.0, "forward")
    clock[0] = 130.0
    ticker.work("measure", 30.0, 40.0, "jvp")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["measure 25%: forward", "measure 75%, 0:15 left: jvp"]


def test_no_control_character_of_a_note_reaches_the_terminal(clock, capsys):
    clock[0] = 100.0
    Ticker().tick("eval", 1, 2, "a\x1b[2Jb")
    assert capsys.readouterr().err == "eval 1/2: a [2Jb\n"
