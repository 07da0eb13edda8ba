"""A calculator in the middle of a response: one step, parsed and never evaluated."""

import re
from random import Random

import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.tasks import Problem, Split, TaskWithTool, task, tool_of
from entrometer.tasks.calculator import LEVELS, LONGEST_CALL, SIZES, Calculator
from entrometer.tasks.tool import Piece, pieces, refuse_tool

levels = pytest.mark.parametrize("level", LEVELS)
PROBLEM = Problem(0, "(7-4)*5", "15")


def result_of(question):
    """The value by left and right: numbers, brackets and three operators."""
    numbers = re.findall(r"[+*-]?\d+", question.replace("(", "").replace(")", ""))
    value = int(numbers[0])
    for number in numbers[1:]:
        b = int(number[1:])
        value = {"+": value + b, "-": value - b, "*": value * b}[number[0]]
    return str(value)


@levels
def test_problems_are_the_same_everywhere_and_differ_from_one_another(level):
    every = [p for s in Split for p in Calculator(level).problems(s)]
    assert len({p.question for p in every}) == len(every) == sum(SIZES.values())
    assert all(p.answer == result_of(p.question) for p in every)
    first = Calculator(level).problems(Split.TRAIN, 2)
    expected = {
        "easy": ["(4*0)-9", "(4*3)*8"],
        "hard": ["((81+17)-2)+93", "((16+43)*24)+52"],
    }
    assert [p.question for p in first] == expected[level]


@levels
def test_demonstrations_are_right_and_their_results_are_the_tool_s(level):
    calculator, random = Calculator(level), Random(0)
    for problem in calculator.problems(Split.TRAIN, 200):
        text = calculator.demonstration(problem, random)
        assert calculator.score(problem, text) == (1.0, 1.0)
        parts = list(pieces(calculator, problem, text))
        assert "".join(part.text for part in parts) == text
        replies = [part.text for part in parts if not part.written]
        assert len(replies) == LEVELS[level].terms - 1
        assert replies[-1] == f"={problem.answer};"


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<think>[7-4]", "=3;"),
        ("[7-4]=3;[3*-5]", "=-15;"),
        ("[ 7 + 4 ]", "=11;"),
        ("[-7--4]", "=-3;"),
        ("[999999999*999999999]", "=999999998000000001;"),
        ("[7-4", None),
        ("7-4]", None),
        ("", None),
        ("[7-4]</think><answer>[7-4]", None),
    ],
)
def test_a_call_is_answered(text, reply):
    assert Calculator().reply(PROBLEM, text) == reply


@pytest.mark.parametrize(
    "call",
    [
        *("", "7", "7-4-2", "7/2", "7**9", "9999999999+1", "٣+٤", "1_0+1", "0x1+1"),
        *("__import__('os').system('true')", "exit()", "1+1\n", "1+1#", "(1+1)"),
        "1+1" + " " * LONGEST_CALL,
    ],
)
def test_anything_else_in_brackets_is_a_question_mark(call):
    assert Calculator().reply(PROBLEM, f"[{call}]") == "=?;"


def test_a_long_response_takes_no_long_time():
    assert Calculator().reply(PROBLEM, "[" * 10**6 + "1+1]") == "=2;"
    assert Calculator().reply(PROBLEM, "[" + "1" * 10**6 + "]") == "=?;"


def test_a_tool_is_called_by_the_index_of_its_problem():
    calculator = task("calculator")
    assert isinstance(calculator, TaskWithTool)
    tool = tool_of(calculator, calculator.problems(Split.TRAIN, 4))
    assert tool.call_end == "]"
    assert tool.reply(3, "[1+1]") == "=2;"
    assert tool_of(task("arithmetic"), []) is None


def test_a_demonstration_with_another_result_is_refused():
    with pytest.raises(InvalidValue, match=r"expected the reply '=3;'"):
        list(pieces(Calculator(), PROBLEM, "[7-4]=4;"))


def test_a_demonstration_without_a_tool_is_one_piece():
    assert list(pieces(task("order"), PROBLEM, "[1]")) == [Piece("[1]", True)]


def test_a_server_that_lets_no_tool_reply_is_refused():
    refuse_tool(task("order"), "http://here")
    with pytest.raises(InvalidValue, match="a task without a tool for the sampler"):
        refuse_tool(task("calculator"), "http://here")


def test_another_level_or_problem_is_refused():
    with pytest.raises(MissingKey, match="Did you mean 'hard'"):
        Calculator("hrad")
    with pytest.raises(InvalidValue, match="expected `Steps`"):
        Calculator().demonstration(PROBLEM, Random(0))
