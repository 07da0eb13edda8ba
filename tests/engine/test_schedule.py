"""Which piece is next."""

import pytest

from entrometer.engine.schedule import ATTEMPTS, LOSSES, Schedule
from tests.engine.pieces import Piece


def taken(schedule, required_model=None):
    work = schedule.take(required_model)
    return None if work is None else work.name


def test_the_longest_of_the_ready_goes_first():
    schedule = Schedule(
        [Piece("a", cost=1), Piece("b", cost=3), Piece("c", cost=2)], ()
    )
    assert [taken(schedule) for _ in range(4)] == ["b", "c", "a", None]


def test_what_the_store_has_is_dropped_and_what_waited_for_it_is_ready():
    a = Piece("a")
    schedule = Schedule([a, Piece("b", (a,))], {"a.txt"})
    assert schedule.count == 1
    assert taken(schedule) == "b"


def test_a_piece_waits_for_all_that_it_needs():
    a, b = Piece("a", cost=2), Piece("b")
    schedule = Schedule([a, b, Piece("c", (a, b))], ())
    first, second = schedule.take(), schedule.take()
    assert (first, second) == (a, b)
    assert schedule.take() is None
    schedule.done(a)
    assert schedule.take() is None
    schedule.done(b)
    assert taken(schedule) == "c"


def test_pieces_with_the_same_needs_wait_at_one_gate():
    a = Piece("a")
    needs = (a,)
    schedule = Schedule([a, *(Piece(f"b{i}", needs) for i in range(5))], ())
    assert schedule.take() is a
    assert len(schedule._opens["a.txt"]) == 1
    schedule.done(a)
    assert schedule.ready == 5


def test_a_piece_that_is_asked_for_twice_is_handed_out_once():
    schedule = Schedule([Piece("a"), Piece("a")], ())
    assert [taken(schedule), taken(schedule)] == ["a", None]


def test_a_worker_stays_with_what_it_has_loaded():
    pieces = [
        Piece("a", cost=9, required_model="x"),
        Piece("b", required_model="y"),
        Piece("c", required_model="y"),
    ]
    schedule = Schedule(pieces, ())
    assert [taken(schedule, "y") for _ in range(3)] == ["b", "c", "a"]


def test_workers_spread_over_the_homes():
    pieces = [
        Piece(f"{required_model}{i}", required_model=required_model)
        for required_model in "xy"
        for i in range(4)
    ]
    schedule = Schedule(pieces, ())
    assert {taken(schedule)[0] for _ in range(2)} == {"x", "y"}


def test_a_piece_that_fails_is_given_up_and_blocks_what_needs_it():
    a, b = Piece("a", cost=2), Piece("b")
    schedule = Schedule([a, b, Piece("c", (a,))], ())
    for attempt in range(ATTEMPTS):
        assert schedule.take() is a
        schedule.fail(a, f"attempt {attempt}")
    assert schedule.failed == {"a.txt": f"attempt {ATTEMPTS - 1}"}
    assert schedule.take() is b
    schedule.done(b)
    assert schedule.take() is None
    assert (schedule.left, schedule.blocked(), schedule.retries) == (2, 1, ATTEMPTS)


def test_a_piece_may_be_lost_more_often_than_it_may_fail_but_not_for_ever():
    a = Piece("a")
    schedule = Schedule([a], ())
    for _ in range(LOSSES):
        assert schedule.take() is a
        schedule.lose(a, "gone")
    assert schedule.take() is None
    assert LOSSES > ATTEMPTS
    assert schedule.failed == {"a.txt": "gone"}


def test_what_nobody_asked_for_cannot_be_waited_for():
    with pytest.raises(AssertionError, match=r"a\.txt is needed"):
        Schedule([Piece("b", (Piece("a"),))], ())
