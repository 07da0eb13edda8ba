import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from entrometer.text import clock, interval, plain, print_json, table
from tests.cli.conftest import strictly


def test_plain_text_holds_nothing_that_a_terminal_obeys():
    assert (
        plain("a\x1b[31mb\r\nc\u202ed\x9be\ttwo  spaces") == "a [31mb c d e two spaces"
    )


def test_json_has_null_for_what_json_does_not_have(capsys):
    @dataclass
    class Row:
        x: float
        where: Path

    print_json({"rows": [Row(math.nan, Path("a"))], "y": (math.inf, 1.5, "\x1b")})
    printed = capsys.readouterr().out
    expected = {"rows": [{"x": None, "where": "a"}], "y": [None, 1.5, "\x1b"]}
    assert strictly(printed) == expected
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((-0.0711, -0.101, -0.0412), "-0.071 [-0.101, -0.041]"),
        ((1.5e-6, 1.2e-6, 1.8e-6), "+1.50e-6 [+1.20e-6, +1.80e-6]"),
        ((0.0, 0.0, 0.0), "exactly 0"),
        ((0.5, math.nan, math.nan), "+0.5 [not known]"),
        ((1.0, 1.0, math.inf), "+1 [+1, +inf]"),
    ],
)
def test_a_value_and_its_interval_share_their_decimals(numbers, text):
    assert interval(*numbers) == text


def test_table_has_words_to_the_left_and_numbers_to_the_right():
    assert table(["name", "n"], [["a", "1"], ["b\x1bc", "22"]]).splitlines() == [
        "name   n",
        "a      1",
        "b c   22",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0:00"), (61.0, "1:01"), (5400.0, "1:30:00")]
)
def test_times_read_as_on_a_clock(seconds, told):
    assert clock(seconds) == told
