"""Digits in the order that a mark asks for."""

from random import Random

import pytest

from entrometer.errors import EntrometerError
from entrometer.tasks import Split, task
from entrometer.tasks.order import LEVELS, SIZES


def test_answers_are_the_digits_in_the_order_of_the_mark():
    for problem in task("order").problems(Split.TRAIN, 100):
        digits, mark = problem.question[:5], problem.question[5]
        assert problem.question == f"{problem.digits}{mark}:"
        assert problem.answer == "".join(sorted(digits, reverse=mark == "d"))


@pytest.mark.parametrize("level", LEVELS)
def test_splits_share_no_digits_and_levels_have_their_marks(level):
    order = task("order", level=level)
    test, train = (order.problems(split) for split in (Split.TEST, Split.TRAIN))
    assert (len(test), len(train)) == (SIZES[Split.TEST], SIZES[Split.TRAIN])
    assert not {p.digits for p in test} & {p.digits for p in train}
    assert {p.question[5] for p in train} == set(LEVELS[level])
    first = sum(p.question[5] == LEVELS[level][0] for p in train) / len(train)
    assert first == pytest.approx(1 / len(LEVELS[level]), abs=0.03)


def test_a_response_counts_only_as_it_is():
    order = task("order", level="easy")
    problem = order.problems(Split.TEST, 1)[0]
    assert order.score(problem, problem.answer) == (1.0, 1.0)
    assert order.score(problem, problem.answer[::-1] + " ") == (0.0, 0.0)
    assert order.score(problem, f" {problem.answer}") == (0.0, 0.0)
    assert order.score(problem, "٠١٢٣٤") == (0.0, 0.0)


def test_demonstrations_ignore_the_mark_and_slip():
    order = task("order", level="hard")
    random = Random(0)
    found = [
        (p, order.demonstration(p, random)) for p in order.problems(Split.TRAIN, 2000)
    ]
    right = sum(text == p.answer for p, text in found) / len(found)
    other = sum(text == p.answer[::-1] for p, text in found) / len(found)
    # All five digits stay with 0.78 + 0.022 each: a third of the demonstrations.
    assert right == pytest.approx(0.3 * 0.802**5, abs=0.03)
    assert other == pytest.approx(0.7 * 0.802**5, abs=0.04)


def test_another_level_is_refused():
    with pytest.raises(EntrometerError, match="Did you mean 'hard'"):
        task("order", level="hrad")
