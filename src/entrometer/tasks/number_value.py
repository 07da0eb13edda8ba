"""The number at the start of an answer, as an exact fraction.

Each pattern is anchored and has no quantifier inside another that could match the same
text, so matching is linear in the length of the answer. Digits are ASCII only: Unicode
normalization would turn `18²` into 182 and `18½` into 181⁄2.
"""

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

from entrometer.tasks.verifier_limits import LONGEST_EXPONENT

CURRENCY_CODES = ("USD", "EUR", "GBP", "JPY", "INR", "CNY", "CAD", "AUD", "CHF")
CURRENCY_SYMBOLS = ("US$", r"\$", "$", "€", "£", "¥", "₹", "₩")

# ASCII hyphen, the Unicode hyphens and the en dash that stand in for it, and the minus
# sign. An em dash is punctuation and no sign.
_MINUS = r"\-\u2010\u2011\u2012\u2013\u2212"
_SIGN = rf"[+{_MINUS}]|(?i:minus|negative)(?=\s)"
_CURRENCY = "|".join(map(re.escape, CURRENCY_SYMBOLS))
_CODE = "|".join(CURRENCY_CODES)
_PREFIX = re.compile(
    rf"(?P<before>{_SIGN})?\s*"
    rf"(?P<currency>{_CURRENCY}|(?:{_CODE})(?=\s))?\s*"
    rf"(?P<after>{_SIGN})?\s*"
)

# "1,234", LaTeX "1{,}234" and "1\,234", and the blanks of "1 234": one kind per number.
_SEPARATOR = r",|\{,\}|,\\!|\\,|[ \u00a0\u2009\u202f]"
_DECIMAL = re.compile(
    rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<separator>{_SEPARATOR})[0-9]{{3}}"
    r"(?:(?P=separator)[0-9]{3})*(?![0-9])|[0-9]+)?"
    r"(?:\.(?P<places>[0-9]+))?"
)

_POWER = rf"[+{_MINUS}]?[0-9]{{1,{LONGEST_EXPONENT}}}"
_EXPONENT = re.compile(
    rf"[eE](?P<e>{_POWER})"
    rf"|\s?(?:×|x|\*|·|\\times|\\cdot)\s?10(?:(?:\^|\*\*)(?:(?P<bare>{_POWER})"
    rf"|\{{(?P<braced>{_POWER})\}})|(?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]{{1,{LONGEST_EXPONENT}}}))"
)
_TO_ASCII = str.maketrans(
    "\u2010\u2011\u2012\u2013\u2212⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "------0123456789"
)

# `½` is 1⁄2 by its compatibility decomposition.
_VULGAR = {
    character: Fraction(unicodedata.normalize("NFKC", character).replace("\u2044", "/"))
    for character in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
}
_FRACTION = re.compile(
    r"(?:(?P<whole>[0-9]++)[ \u00a0]?)?"
    r"(?:(?P<over>[0-9]++)\s?/\s?(?P<under>[0-9]++)"
    rf"|(?P<vulgar>[{''.join(_VULGAR)}])"
    rf"|\\[dt]?frac\s?(?:(?P<tex_over>[0-9])|\{{\s?(?P<tex_overs>[{_MINUS}]?[0-9]++)\s?\}})"
    r"\s?(?:(?P<tex_under>[0-9])|\{\s?(?P<tex_unders>[0-9]++)\s?\}))"
)


class LeadingNumber(NamedTuple):
    """A number at the start of a text, and what follows."""

    value: Fraction
    currency: bool
    rest: str


def leading_number(text: str) -> LeadingNumber | None:
    """Return the number that `text` starts with, None if it starts with none."""
    prefix = _PREFIX.match(text)
    assert prefix is not None
    if prefix["before"] and prefix["after"]:
        return None
    found = _fraction(text, prefix.end()) or _decimal(text, prefix.end())
    if found is None:
        return None
    value, end = found
    sign = prefix["before"] or prefix["after"]
    if sign and value < 0:
        return None
    if sign and sign != "+":
        value = -value
    return LeadingNumber(value, bool(prefix["currency"]), text[end:])


def _fraction(text: str, start: int) -> tuple[Fraction, int] | None:
    match = _FRACTION.match(text, start)
    if match is None:
        return None
    if match["vulgar"]:
        part = _VULGAR[match["vulgar"]]
    else:
        over = match["over"] or match["tex_over"] or match["tex_overs"]
        under = int(match["under"] or match["tex_under"] or match["tex_unders"])
        if not under:
            return None
        part = Fraction(int(over.translate(_TO_ASCII)), under)
    # 36/2 is a division that is still to be carried out, and so is 1 4/2.
    if part.denominator == 1 or (match["whole"] and not 0 < part < 1):
        return None
    return part + int(match["whole"] or 0), match.end()


def _decimal(text: str, start: int) -> tuple[Fraction, int] | None:
    match = _DECIMAL.match(text, start)
    assert match is not None
    if match.end() == start:
        return None
    whole, places = match["whole"] or "", match["places"] or ""
    if match["separator"]:
        whole = whole.replace(match["separator"], "")
    value = Fraction(int(whole + places), 10 ** len(places))
    power = _EXPONENT.match(text, match.end())
    if power is None:
        return value, match.end()
    exponent = power["e"] or power["bare"] or power["braced"] or power["raised"]
    scale = Fraction(10) ** int(exponent.translate(_TO_ASCII))
    return value * scale, power.end()
