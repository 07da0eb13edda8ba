import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from math_verify import parse, verify

from entrometer.tasks.plain_numbers import plain_numbers_equal


@pytest.mark.parametrize(
    ("reference", "answer", "equal"),
    [
        ("18", "18", True),
        ("18", " 18\n", True),
        ("18", "18.000", True),
        ("1234", "1,234", True),
        ("1,234,567.5", "1234567.50", True),
        ("0", "-0", True),
        ("18", "-18", False),
        ("18", "19", False),
        ("0.5", "0.50002", False),
    ],
)
def test_plain_numbers(reference, answer, equal):
    assert plain_numbers_equal(reference, answer) is equal


@pytest.mark.parametrize(
    "answer",
    [
        *("", "+18", "018", "18%", "$18", "1/2", "x", "18 19", ".5", "5.", "1e3"),
        *("1,23", "0,123", "12,3456", "1,234,56", "１８", "1" * 16, "0.5000001"),
    ],
)
def test_what_is_not_plain_or_too_close_is_left_to_the_parser(answer):
    assert plain_numbers_equal("0.5", answer) is None


DIGITS = st.text("0123456789", max_size=8)
NUMBERS = st.builds(
    lambda minus, whole, comma, part: (
        f"{minus}{whole:{comma}}" + (f".{part}" if part else "")
    ),
    st.sampled_from(["", "-"]),
    st.integers(0, 10**10) | st.integers(0, 20),
    st.sampled_from(["", ","]),
    DIGITS,
)


@st.composite
def nearby(draw):
    """A number, and one that differs in notation, in one character or altogether."""
    number = draw(NUMBERS)
    place = draw(st.integers(0, len(number) - 1))
    changed = number[:place] + draw(st.sampled_from("0123456789")) + number[place + 1 :]
    longer = number + ("0" if "." in number else ".00")
    plain = number.replace(",", "")
    return number, draw(st.sampled_from([number, changed, longer, plain]) | NUMBERS)


@settings(max_examples=500)
@given(nearby())
def test_it_is_what_math_verify_says(pair):
    equal = plain_numbers_equal(*pair)
    if equal is not None:
        assert equal is verify(parse(pair[0]), parse(pair[1]))
