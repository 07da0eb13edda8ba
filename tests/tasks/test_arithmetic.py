"""Arithmetic: the same sums everywhere, apart in both splits, shown as they are."""

import re
import subprocess
import sys
from random import Random

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.tasks import template
from entrometer.tasks.arithmetic import LEVELS, SIZES, Arithmetic
from entrometer.tasks.registry import Problem, Split

levels = pytest.mark.parametrize("level", LEVELS)


def test_the_first_problems_are_these_on_every_machine():
    easy = Arithmetic("easy")
    test = [(p.expression, p.answer) for p in easy.problems(Split.TEST, 3)]
    train = [(p.expression, p.answer) for p in easy.problems(Split.TRAIN, 3)]
    assert test == [("0 - 4 - 8", "-12"), ("4 - 1 - 7", "-4"), ("1 - 5 - 2", "-6")]
    assert train == [("7 - 3 - 8", "-4"), ("7 + 5 - 1", "11"), ("6 - 1 + 2", "7")]


@levels
def test_no_question_occurs_twice_in_or_across_splits(level):
    task = Arithmetic(level)
    questions = [p.question for split in Split for p in task.problems(split)]
    assert len(set(questions)) == len(questions) == sum(SIZES.values())


@levels
def test_sums_are_as_long_and_as_large_as_their_level_says(level):
    fewest, most = LEVELS[level].terms
    shortest, longest = LEVELS[level].digits
    for p in Arithmetic(level).problems(Split.TRAIN):
        terms = re.findall(r"\d+", p.expression)
        assert fewest <= len(terms) <= most
        assert all(shortest <= len(term) <= longest for term in terms)


@levels
def test_the_answer_is_the_value_of_the_sum_that_is_asked_for(level):
    for p in Arithmetic(level).problems(Split.TRAIN):
        assert p.question == f"What is {p.expression}?"
        signed = re.findall(r"[+-]?\d+", p.expression.replace(" ", ""))
        assert p.answer == str(sum(map(int, signed)))


def test_fewer_problems_are_the_first_of_all_and_are_indexed_in_order():
    task = Arithmetic("easy")
    everything = task.problems(Split.TRAIN)
    assert task.problems(Split.TRAIN, 5) == everything[:5]
    assert [p.index for p in everything] == list(range(SIZES[Split.TRAIN]))


@pytest.mark.parametrize("count", [-1, SIZES[Split.TEST] + 1])
def test_a_count_beyond_the_split_is_refused(count):
    with pytest.raises(InvalidValue, match="expected 0 to 256 problems of the split"):
        Arithmetic("easy").problems(Split.TEST, count)


def test_an_unknown_level_is_refused_with_the_nearest_name():
    with pytest.raises(MissingKey, match="Did you mean 'easy'"):
        Arithmetic("eazy")


@levels
def test_every_demonstration_keeps_to_the_format_and_is_right_at_each_step(level):
    task = Arithmetic(level)
    random = Random(1)
    for p in task.problems(Split.TRAIN, 500):
        parsed = template.parse(task.demonstration(p, random))
        assert parsed is not None
        assert parsed.answer == p.answer
        told = _numbers(parsed.thought)
        reached = _reached(p.expression)
        terms = {sign * n for n in _numbers(p.expression) for sign in (1, -1)}
        assert set(told) <= {*terms, *reached}
        # In order: each is looked for behind the one before.
        rest = iter(told)
        assert all(value in rest for value in reached)


def test_demonstrations_differ_in_words_and_repeat_with_the_generator():
    task = Arithmetic("easy")
    problem = task.problems(Split.TRAIN, 1)[0]
    told = [task.demonstration(problem, Random(seed)) for seed in range(200)]
    assert told == [task.demonstration(problem, Random(seed)) for seed in range(200)]
    assert len(set(told)) > 150


def test_a_demonstration_needs_the_sum_of_its_problem():
    with pytest.raises(InvalidValue, match="take it from `problems`"):
        Arithmetic().demonstration(Problem(0, "What is 1 + 2?", "3"), Random(0))


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("<think>7-3=4,4-8=-4</think><answer>-4</answer>", (1.0, 1.0)),
        ("<think>7-3=4,4-8=-4</think><answer>4</answer>", (0.0, 1.0)),
        ("It is <answer>-4</answer>", (1.0, 0.0)),
        ("-4", (0.0, 0.0)),
        ("<think></think><answer></answer>", (0.0, 1.0)),
    ],
)
def test_answer_and_format_are_scored_apart(response, score):
    task = Arithmetic("easy")
    assert task.score(task.problems(Split.TRAIN, 1)[0], response) == score


def test_the_generator_is_imported_with_the_first_problems_only():
    code = (
        "import sys, entrometer.tasks.arithmetic as a; a.Arithmetic();"
        "sys.exit('reasoning_gym' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _reached(expression: str) -> list[int]:
    """The value of the sum after each term but the first."""
    signed = [int(t) for t in re.findall(r"[+-]?\d+", expression.replace(" ", ""))]
    return [sum(signed[:n]) for n in range(2, len(signed) + 1)]


def _numbers(thought: str) -> list[int]:
    # A minus right after a digit is an operator; elsewhere it is a sign.
    return [int(n) for n in re.findall(r"(?<!\d)-?\d+|\d+", thought)]
