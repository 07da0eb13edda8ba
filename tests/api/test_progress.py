import re

import pytest

from entrometer.api import progress
from entrometer.api.progress import Ticker
from entrometer.engine import Status


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


def test_every_note_without_progress_is_shown(clock, capsys):
    ticker = Ticker()
    for note in ("first", "second"):
        ticker.tick("eval", 4, 16, note)
    ticker.tick("eval", 8, 16, "third")
    ticker.tick("eval", 8, 16, "fourth")
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["second", "fourth"]


def test_training_shows_the_metrics_that_people_watch(clock, capsys):
    clock[0] = 100.0
    metrics = {"reward": 0.5, "entropy/token": 0.25, "epoch": 3.0, "loss": None}
    Ticker().training("Dr-GRPO", 1, 2, metrics)
    assert capsys.readouterr().err == "Dr-GRPO 1/2: reward 0.5, entropy 0.25\n"


def test_work_is_shown_as_a_share_with_the_time_left(clock, capsys):
    clock[0] = 100.0
    ticker = Ticker()
    ticker.work("measure", Status(10.0, 40.0, left=3, note="forward"))
    clock[0] = 130.0
    ticker.work("measure", Status(30.0, 40.0, left=1, note="jvp"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "measure 25%, 3 passes to go: forward",
        "measure 75%, 1 passes to go, 0:15 left: jvp",
    ]


def test_a_crew_is_shown_with_its_rate_and_what_was_begun_again(clock, capsys):
    clock[0] = 100.0
    status = Status(
        done=1.0, total=4.0, left=6, tokens=300, seconds=20.0, workers=8, retries=2
    )
    Ticker().work("measure", status)
    told = "measure 25%, 6 passes to go, 15 tokens/s, 8 workers, 2 retries\n"
    assert capsys.readouterr().err == told


def test_plain_lines_are_kept_in_a_log_with_the_time_of_day(clock, tmp_path):
    clock[0] = 100.0
    log = tmp_path / "run" / "progress.log"
    ticker = Ticker(log)
    ticker.tick("work", 1, 3, "")
    clock[0] = 101.0
    ticker.tick("work", 2, 3, "")
    ticker.tick("work", 3, 3, "")
    lines = log.read_text().splitlines()
    assert [line.partition(" ")[2][:8] for line in lines] == ["work 1/3", "work 3/3"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", line) for line in lines)


def test_no_control_character_of_a_note_reaches_the_terminal(clock, capsys):
    clock[0] = 100.0
    Ticker().tick("eval", 1, 2, "a\x1b[2Jb")
    assert capsys.readouterr().err == "eval 1/2: a [2Jb\n"


def test_a_line_that_is_said_again_says_for_how_long(clock, capsys):
    ticker = Ticker()
    ticker.begin("measure checkpoint-4")
    for seconds in (100.0, 110.0, 120.0):
        ticker._print(seconds)
    ticker.begin("influence checkpoint-4")
    ticker._print(130.0)
    assert capsys.readouterr().err.splitlines() == [
        "measure checkpoint-4",
        "measure checkpoint-4 (for 0:10)",
        "measure checkpoint-4 (for 0:20)",
        "influence checkpoint-4",
    ]
