"""The grammar of an answer to a number task: it accepts its forms, and nothing else."""

import re
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.verifier.right_forms import RIGHT
from benchmarks.verifier.wrong_forms import WRONG
from entrometer.tasks import verify_number
from entrometer.tasks.number_answer import (
    MOST_LAYERS,
    leading_number,
    read_answer,
    read_reference,
)


def pairs(families):
    return [
        pytest.param(reference, answer, id=f"{family}: {reference} | {answer!r}")
        for family, forms in families.items()
        for reference, answers in forms.items()
        for answer in answers
    ]


@pytest.mark.parametrize(("reference", "answer"), pairs(RIGHT))
def test_a_right_form_scores(reference, answer):
    assert verify_number(reference, answer)


@pytest.mark.parametrize(("reference", "answer"), pairs(WRONG))
def test_a_wrong_form_does_not_score(reference, answer):
    assert not verify_number(reference, answer)


def test_the_forms_are_many_and_none_is_listed_twice():
    for families, least in [(RIGHT, 120), (WRONG, 200)]:
        listed = [pair.values for pair in pairs(families)]
        assert len(set(listed)) == len(listed) >= least
    right, wrong = ({p.values for p in pairs(f)} for f in (RIGHT, WRONG))
    assert not right & wrong


def test_the_page_says_what_is_accepted_and_what_is_refused():
    page = Path(__file__).parents[2].joinpath("docs/tasks.md").read_text("utf-8")
    _, _, table = page.partition("| | accepted | refused |\n|---|---|---|\n")
    table, _, _ = table.partition("\n\n")
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    examples = {True: "", False: ""}
    for row in rows:
        examples[False] += row[-1]
        examples[True] += row[1] if len(row) == 3 else ""
    for accepted, cells in examples.items():
        listed = re.findall("`([^`]+)`", cells)
        assert len(listed) > 30
        assert [(read_answer(text) is not None) for text in listed] == [accepted] * len(
            listed
        )


@pytest.mark.parametrize(
    ("text", "value"),
    [("18", 18), ("$18$", 18), (r"\boxed{-7.5}", -7.5), ("7%", 7), ("$1,080", 1080)],
)
def test_a_reference_is_a_bare_number(text, value):
    assert read_reference(text) == value


@pytest.mark.parametrize(
    "text", ["2x", "$2m$", "18 dollars", "x = 5", "36/2", "2^3", "5!", "blue", ""]
)
def test_a_reference_with_words_or_letters_is_left_to_math_verify(text):
    assert read_reference(text) is None


RIGHT_ANSWERS = st.sampled_from(
    [(pair.values[0], pair.values[1]) for pair in pairs(RIGHT)]
)


@given(RIGHT_ANSWERS, st.sampled_from(["!", "½", "/x", "/2", r"\pi", "?", "9", "i"]))
def test_no_right_answer_stays_right_with_a_sign_behind_it(pair, behind):
    reference, answer = pair
    # Behind a word, a letter makes another word: `18 miles per houri`.
    if behind != "i" or not answer.strip()[-1].isalpha():
        assert not verify_number(reference, answer.strip() + behind)


@given(RIGHT_ANSWERS, st.sampled_from(["²", "³", "⁻¹", "^2", "**2", "^{2}"]))
def test_no_right_answer_stays_right_with_a_power_behind_it(pair, power):
    reference, answer = pair
    # An area is no power of the number: `18 km` and `18 km²` are both 18.
    if not answer[-1].isalpha():
        assert not verify_number(reference, answer.strip() + power)


@given(RIGHT_ANSWERS, st.sampled_from([" thousand", " or 3", " - 1", " not", " dozen"]))
def test_no_right_answer_stays_right_with_a_word_behind_it(pair, behind):
    reference, answer = pair
    assert not verify_number(reference, answer + behind)


@given(
    RIGHT_ANSWERS, st.sampled_from(["not ", "~", "≈", r"\neq ", "> ", "1", "√", "- "])
)
def test_no_right_answer_stays_right_with_something_before_it(pair, before):
    reference, answer = pair
    if read_reference(reference) != 0 or before != "- ":
        assert not verify_number(reference, before + answer.strip())


@given(st.text("0123456789.,-/$%(){}[]*_\"'` \\=exk^²½fracboxedtextnot", max_size=40))
def test_any_text_is_a_number_or_none(text):
    value = read_answer(text)
    if value is not None:
        assert any(character in "0123456789½" for character in text)
        # A minus in the text is in the value or in an exponent; none appears from air.
        assert value >= 0 or "-" in text


def test_markup_is_peeled_up_to_a_limit():
    within = "(" * MOST_LAYERS + "18" + ")" * MOST_LAYERS
    assert read_answer(within) == 18
    assert read_answer(f"({within})") is None


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "1",
            "1 ",
            "1,",
            "1,111",
            "1 111 ",
            "(",
            "'\"",
            "**",
            "$",
            "so ",
            " ",
            "\\text{",
        ),
        *("18 apples ", "- ", "1/", "\\frac{", "1e9", "a/", "per ", "the answer is "),
    ],
)
def test_time_is_linear_in_the_length(piece):
    def seconds(length):
        text = (piece * length)[:length]
        times = []
        # Processor time, least of some: other work on the machine is not counted.
        for _ in range(7):
            start = time.process_time()
            read_answer(text)
            times.append(time.process_time() - start)
        return min(times)

    # 16 times the length takes 16 times as long, or 256 times if it were quadratic.
    assert seconds(4_096) < 100 * seconds(256)


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
