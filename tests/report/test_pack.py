import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrometer.report.influence.token_map import (
    CODES,
    ERROR,
    INFLUENCE,
    LENGTH,
    LETTERS,
    NATS,
    pack,
)


def unpack(text, code):
    """The number again, said anew."""
    place = 0
    for letter in text:
        place = place * 89 + LETTERS.index(letter)
    if place < 2:
        return (math.nan, 0.0)[place]
    rest, power = divmod(place - 2, code.exponents)
    sign, m = divmod(rest, 9 * 10 ** (code.digits - 1))
    size = m + 10 ** (code.digits - 1)
    return float(f"{'-' * sign}{size}e{power + code.lowest}")


@given(st.floats(-1e100, 1e100).filter(lambda x: abs(x) > 1e-100))
def test_an_influence_keeps_three_digits(x):
    assert unpack(INFLUENCE.write(x), INFLUENCE) == float(f"{x:.2e}")


@given(st.floats(1e-50, 1e20))
def test_an_error_keeps_two_digits(x):
    assert unpack(ERROR.write(x), ERROR) == float(f"{x:.1e}")


@given(st.floats(1e-5, 998))
def test_a_log_probability_keeps_three_digits(x):
    assert unpack(NATS.write(x), NATS) == float(f"{x:.2e}")


@pytest.mark.parametrize("code", [INFLUENCE, ERROR, NATS])
def test_what_was_not_measured_and_zero_are_told(code):
    assert math.isnan(unpack(code.write(math.nan), code))
    assert math.isnan(unpack(code.write(math.inf), code))
    assert unpack(code.write(0.0), code) == 0
    assert len(code.write(1.0)) == code.length


def test_a_number_beyond_the_code_is_zero_or_unknown_and_never_another():
    assert unpack(NATS.write(9e-6), NATS) == 0
    assert math.isnan(unpack(NATS.write(1e4), NATS))
    assert math.isnan(unpack(NATS.write(-0.5), NATS))
    assert math.isnan(unpack(ERROR.write(1e40), ERROR))


def test_an_attribute_holds_every_letter_as_it_is():
    assert len(set(LETTERS)) == 89
    assert not set(LETTERS) & set("\"&'<> \n")


def test_a_token_takes_fourteen_characters():
    rows = [(1e-5, 2e-6, -3e-4, 1e-5, 0.51, 0.27)] * 3
    assert len(pack(rows)) == 3 * LENGTH == 42
    assert [c.length for c in CODES] == [3, 2, 3, 2, 2, 2]
