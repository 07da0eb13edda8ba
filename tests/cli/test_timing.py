import pytest

from entrometer.cli import train_plan as timing
from entrometer.cli.train_plan import Line


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def through(clock, taken, counts):
    def work(count):
        clock[0] += taken[count]

    return Line.through(work, counts)


def test_line_through_two_times(clock):
    line = through(clock, {2: 5.0, 6: 13.0}, (2, 6))
    assert line.at(10) == pytest.approx(21.0)


def test_a_fixed_part_is_never_negative(clock):
    line = through(clock, {2: 1.0, 4: 4.0}, (2, 4))
    assert line == Line(0.0, 1.0)


def test_more_that_takes_less_costs_nothing_more(clock):
    line = through(clock, {2: 4.0, 4: 3.0}, (2, 4))
    assert line == Line(4.0, 0.0)


def test_one_amount_alone_is_taken_as_proportional(clock):
    assert through(clock, {2: 4.0}, (2, 2)).at(3) == pytest.approx(6.0)
