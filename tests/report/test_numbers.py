import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrometer.report.numbers import (
    interval,
    number,
    percent,
    span,
    with_error,
    with_interval,
)

ANY = st.floats()


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-0.01389, 0.00451, "−0.0139 ± 0.0045"),
        (12.345, 1.2, "12.3 ± 1.2"),
        (-1.389e-7, 4.5e-8, "(−1.39 ± 0.45)e-7"),
        (1234567.0, 1000.0, "(1.2346 ± 0.0010)e6"),
        (0.0, 0.5, "0.00 ± 0.50"),
        (0.25, math.nan, "0.25"),
        (math.nan, 0.1, "–"),
        (math.inf, 0.1, "∞"),
    ],
)
def test_a_value_is_rounded_to_its_error(value, error, text):
    assert with_error(value, error) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.0227, -0.0051, "[−0.0227, −0.0051]"),
        (1.0, math.inf, "[1, ∞]"),
        (math.nan, 1.0, "–"),
        (2e-7, 4e-7, "([2.00, 4.00])e-7"),
        (0.5, 0.5, "[0.5, 0.5]"),
    ],
)
def test_an_interval_is_rounded_to_its_width(low, high, text):
    assert interval(low, high) == text


def test_what_changes_nothing_has_no_interval():
    assert with_interval(0.0, 0.0, 0.0) == "exactly 0"
    assert interval(0.0, 0.0) == "exactly 0"


def test_a_value_and_its_interval_have_the_same_decimals():
    assert with_interval(0.98, 0.96108, 0.9903) == "0.9800 [0.9611, 0.9903]"
    assert with_interval(0.98, math.nan, math.nan) == "0.98"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1e-8, "1e-8"),
        (-3.16228e-5, "−3.16e-5"),
        (4096, "4,096"),
        (-0.0, "0"),
        (0.5, "0.5"),
    ],
)
def test_a_number_is_short(x, text):
    assert number(x) == text


@pytest.mark.parametrize(
    ("x", "text"), [(0.0123, "1.2%"), (-2.51, "−251%"), (1.0, "100%")]
)
def test_a_share_is_per_cent(x, text):
    assert percent(x) == text


@pytest.mark.parametrize(
    ("values", "text"), [([0.123, 4.5], "0.12 to 4.5"), ([2.0, 2.0001], "2")]
)
def test_a_span_is_one_number_if_its_ends_look_equal(values, text):
    assert span(values) == text


@given(ANY, ANY, ANY)
def test_every_float_has_a_text(a, b, c):
    for text in (number(a), percent(a), with_error(a, b), with_interval(a, b, c)):
        assert re.fullmatch(r"exactly 0|[-−–∞\d.,e%±()\[\] +]+", text)
