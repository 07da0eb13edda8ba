import time

import pytest

from entrometer.tasks.verifier import excess


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "18",
        "-1,234.50 €",
        "12\t\r\n13",
        r"\boxed{\frac{1}{\sqrt{2}}}",
        r"$\left(\frac{x^2}{2}\right)^{3}$",
        "$x^{2} + y^{10} - 2^{-3}$",
        "10^9999",
        "(1 + (2 * (3 - (4 / 5))))",
        "∑ × ÷ − π ½ 漢",
        "9" * 30,
        "((((((((((1))))))))))",
        "x^(2)y^2",
    ],
)
def test_what_people_write_is_within_the_limits(answer):
    assert excess(answer, length=100) == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("1" + " " * 100, "101 characters"),
        ("1\x00", "U+0000"),
        ("\x1b[2J18", "U+001B"),
        ("\u202e81", "U+202E of category Cf"),
        ("1\u200b8", "U+200B"),
        ("\ud800", "U+D800 of category Cs"),
        ("\ue000", "U+E000"),
        ("9" * 31, "31 digits"),
        ("(" * 11, "brackets 11 deep"),
        ("{[(" * 4 + "1", "brackets 12 deep"),
        (r"\frac{" * 11, "brackets 11 deep"),
        ("9^9^9", "a power in an exponent"),
        ("9**9**9", "a power in an exponent"),
        ("9^{9^9}", "a power in an exponent"),
        ("9 ^ { 9 ^ 9 }", "a power in an exponent"),
        ("9^-9^9", "a power in an exponent"),
        ("9^(9*(9**9))", "a power in an exponent"),
        (r"9^{\frac{9^9}{2}}", "a power in an exponent"),
        (r"9^\left(9^9\right)", "a power in an exponent"),
        ("9^{(9)}^{9}", "a power in an exponent"),
        (r"9^\alpha^9", "a power in an exponent"),
        ("9^{9^9", "a power in an exponent"),
        ("10^10000", "an exponent of more than 4 digits"),
        ("2^{-12345}", "an exponent of more than 4 digits"),
    ],
)
def test_each_limit(answer, reason):
    assert reason in excess(answer, length=100)


def test_powers_are_limited_only_before_a_parser_that_computes_them():
    assert excess("**18**", length=100)
    assert not excess("**18**", length=100, powers=False)
    assert excess("9" * 31, length=100, powers=False)


@pytest.mark.parametrize("piece", ["^", "**", "^{", "^(", "9^", "(", "9", "\\left"])
def test_the_limits_themselves_take_no_time(piece):
    start = time.perf_counter()
    excess(piece * (256 // len(piece)), length=256)
    excess(piece * 1_000_000, length=256)
    assert time.perf_counter() - start < 0.5
