from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrometer.tasks.number_answer import leading_number


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("18", 18, ""),
        ("18 apples", 18, " apples"),
        ("18x", 18, "x"),
        ("1,234,56", 1234, ",56"),
        ("1,2345", 1, ",2345"),
        ("1 234/5", 1234, "/5"),
        ("1 3/4", Fraction(7, 4), ""),
        ("3/4/2", Fraction(3, 4), "/2"),
        ("36/2", 36, "/2"),
        ("18½", Fraction(37, 2), ""),
        ("18²", 18, "²"),
        ("1.8e1", 18, ""),
        ("1e12345", 10**1234, "5"),
        ("-$5", -5, ""),
    ],
)
def test_the_number_and_what_follows(text, value, rest):
    number = leading_number(text)
    assert number is not None
    assert (number.value, number.rest) == (value, rest)


@pytest.mark.parametrize(
    "text",
    ["", "x", "-", "$", "--5", "-$-5", "+-5", r"-\frac{-1}{2}", "１８"],
)
def test_no_number(text):
    assert leading_number(text) is None


@pytest.mark.parametrize(
    ("text", "currency"), [("$5", True), ("USD 5", True), ("5", False)]
)
def test_a_currency_in_front_is_noted(text, currency):
    number = leading_number(text)
    assert number is not None
    assert number.currency is currency


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=4),
    st.sampled_from(["", ","]),
)
def test_a_decimal_is_read_exactly(x: Decimal, comma):
    number = leading_number(f"{x:{comma}f}")
    assert number == (Fraction(x), False, "")


@given(st.fractions().filter(lambda x: x.denominator > 1), st.integers(1, 9))
def test_a_fraction_is_read_exactly_in_any_terms(x, times):
    over, under = abs(x.numerator) * times, x.denominator * times
    sign = "-" if x < 0 else ""
    for text in [f"{sign}{over}/{under}", rf"{sign}\frac{{{over}}}{{{under}}}"]:
        assert leading_number(text) == (x, False, "")
    whole, part = divmod(abs(x), 1)
    mixed = f"{sign}{whole} {part.numerator}/{part.denominator}"
    assert leading_number(mixed) == (x, False, "")
