"""Numbers in an answer, without a parser."""

import re
from decimal import Decimal

# With commas, a first digit of 0 would make a comma the decimal point.
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
# What a float carries in any notation: beyond, math-verify takes 0.1 and 0.10 apart.
_MOST_DIGITS = 15
_SURELY_UNEQUAL = Decimal("1e-5")

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+")


def plain_numbers_equal(reference: str, answer: str) -> bool | None:
    r"""Return whether two plain numbers are equal; None where a parser must say.

    Plain is an integer or a decimal such as `-1234.50` or `1,234`, of 15 digits at
    most. math-verify rounds to $10^{-6}$ where a number has a decimal point. Equal
    numbers are equal after that, and numbers that are $10^{-5}$ apart are not; it is
    asked about those between.
    """
    expected, got = _plain(reference), _plain(answer)
    if expected is None or got is None:
        return None
    if expected == got:
        return True
    return None if abs(expected - got) < _SURELY_UNEQUAL else False


def _plain(text: str) -> Decimal | None:
    text = text.strip()
    if not _PLAIN.fullmatch(text) or sum(map(str.isdigit, text)) > _MOST_DIGITS:
        return None
    return Decimal(text.replace(",", ""))


def holds_one_number(answer: str) -> bool:
    """Return whether exactly one number is written in the text, such as `$18 a day`.

    Two make a sum that is still to be worked out, or a choice that is still to be made.
    """
    return len(_NUMBER.findall(answer)) == 1
