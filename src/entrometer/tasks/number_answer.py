"""Answers to a task whose reference is a number: the grammar in docs/tasks.md.

Text outside the grammar is no answer, whatever number it contains: a policy that is
rewarded for "not 18" or for "14 + 4" learns to write that.

Each pattern is anchored and has no quantifier inside another that could match the same
text, so matching is linear in the length of the answer. Digits are ASCII only: Unicode
normalization would turn `18²` into 182 and `18½` into 181⁄2.
"""

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

from entrometer.tasks.number_unit import CURRENCY_CODES, CURRENCY_SYMBOLS, is_unit

LONGEST_EXPONENT = 4  #: Most digits of an exponent: more would fill the memory.

# ASCII hyphen, the Unicode hyphens and the en dash that stand in for it, and the minus
# sign. An em dash is punctuation, not a sign.
_MINUS = r"\-\u2010\u2011\u2012\u2013\u2212"
_SIGN = rf"[+{_MINUS}]|(?i:minus|negative)(?=\s)"
_CURRENCY = "|".join(map(re.escape, CURRENCY_SYMBOLS))
_CODE = "|".join(CURRENCY_CODES)
_PREFIX = re.compile(
    rf"(?P<before>{_SIGN})?\s*"
    rf"(?P<currency>{_CURRENCY}|(?:{_CODE})(?=\s))?\s*"
    rf"(?P<after>{_SIGN})?\s*"
)

# "1,234", LaTeX "1{,}234" and "1\,234", and the space of "1 234": one kind per number.
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
    """A number at the start of a text, and the rest of the text."""

    value: Fraction
    currency: bool  #: Whether a currency symbol or code stands before the number.
    rest: str


def leading_number(text: str) -> LeadingNumber | None:
    """Return the number at the start of `text`, or None."""
    prefix = _PREFIX.match(text)
    assert prefix is not None
    if prefix["before"] and prefix["after"]:
        return None
    parsed = _fraction(text, prefix.end()) or _decimal(text, prefix.end())
    if parsed is None:
        return None
    value, end = parsed
    sign = prefix["before"] or prefix["after"]
    if sign and value < 0:
        return None
    value = -value if sign and sign != "+" else value
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
    # 36/2 is a division to be computed, not an answer, and so is 1 4/2.
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
    return value * Fraction(10) ** int(exponent.translate(_TO_ASCII)), power.end()


MOST_LAYERS = 8  #: Most layers of markup around a number; `$\boxed{18}$` has two.

# Longer marks first, so that `**` is not read as twice `*`.
_MARKS = {mark: mark for mark in ("***", "**", "*", "__", "_", "```", "`", "$$", "$")}
_MARKS |= {'"': '"', "'": "'", "“": "”", "‘": "’"}
_MARKS |= {r"\(": r"\)", r"\[": r"\]", r"\left(": r"\right)"}
_OPENING = re.compile("|".join(map(re.escape, _MARKS)))
# `\$` is a currency symbol, not a closing mark.
_CLOSING = {
    opening: re.compile(rf"(?<!\\){re.escape(closing)}")
    for opening, closing in _MARKS.items()
}
_COMMAND = re.compile(r"\\(?:boxed|fbox|text|textbf|mathbf|mathrm)\s?\{")

_ANSWER = (
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:the|my|our)\s+)?"
    r"(?:(?:final|correct)\s+)?answer"
)
_LEAD_IN = re.compile(
    rf"(?:####|\*\*{_ANSWER}\s*:\*\*|\*\*{_ANSWER}\*\*\s*:"
    rf"|{_ANSWER}\s*(?:[:=]|is\b\s*:?))\s*",
    re.IGNORECASE,
)
_EQUATION = re.compile(r"[A-Za-z]?\s*=(?!=)\s*")


def read_answer(text: str) -> Fraction | None:
    """Return the number an answer states, None if it is outside the grammar."""
    return _read(text, bare=False)


def read_reference(text: str) -> Fraction | None:
    """Return the number a reference states, None if it is something else.

    A reference has no unit: `2x` is an expression, which math-verify compares.
    """
    return _read(text, bare=True)


def _read(text: str, *, bare: bool) -> Fraction | None:
    pending = [] if bare else [_LEAD_IN, _EQUATION]
    closed, behind = False, ""
    for _ in range(MOST_LAYERS + 1):
        text = text.strip()
        if not closed and text.endswith("."):
            text, closed = text[:-1].rstrip(), True
        # Shortcut for most answers: no lead-in and no markup starts like this.
        if text[:1] in "-0123456789":
            return _quantity(text, behind, bare=bare)
        for lead in tuple(pending):
            if match := lead.match(text):
                text = text[match.end() :]
                pending.remove(lead)
        layer = _peel(text)
        if layer is None:
            return _quantity(text, behind, bare=bare)
        text, rest = layer
        if rest and behind:
            return None
        behind = rest or behind
    return None


def _quantity(text: str, behind: str, *, bare: bool) -> Fraction | None:
    number = leading_number(text)
    if number is None or (number.rest and behind):
        return None
    rest = number.rest or behind
    if bare:
        fits = rest.strip() in ("", "%", r"\%")
    else:
        fits = not rest or is_unit(rest, currency=number.currency)
    return number.value if fits else None


def _peel(text: str) -> tuple[str, str] | None:
    """Content of the outermost layer of markup and the text after it; None if bare."""
    if opening := _OPENING.match(text):
        closing = _CLOSING[opening[0]].search(text, opening.end())
        # A dollar sign that is never closed is a currency symbol.
        start = opening.end()
        return closing and (text[start : closing.start()], text[closing.end() :])
    command = _COMMAND.match(text)
    if not command and not text.startswith("("):
        return None
    start = command.end() if command else 1
    end = end_of_bracket(text, start, "{}" if command else "()")
    return None if end < 0 else (text[start:end], text[end + 1 :])


def end_of_bracket(text: str, start: int, pair: str) -> int:
    """Return the index where a bracket that opens before `start` closes, else -1."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if not depth:
            return place
    return -1
