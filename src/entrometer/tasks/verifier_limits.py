"""What an answer may be before anything parses it."""

import re
import unicodedata

DEEPEST_NESTING = 10
LONGEST_NUMBER = 30
LONGEST_EXPONENT = 4

# Control, format (bidirectional marks, zero widths), surrogate, private and unassigned.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
_BLANKS = "\t\n\r"

_POWER = re.compile(r"\^|\*\*")
_BEFORE_EXPONENT = re.compile(r"(?:[\s+\-]|\\left)*")
_ATOM = re.compile(r"[\\\w.]*")
_BLANK = re.compile(r"\s*")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def excess(text: str, *, length: int, powers: bool = True) -> str:
    """Return what in `text` passes a limit, "" if nothing does.

    Powers are limited for a parser that computes them. The grammar of numbers does not,
    and reads `**18**` as bold.

    Time is at most quadratic in `length`, the characters that are allowed; longer text
    is not read. These limits are for what is certainly no answer: what remains may
    still take time or memory, and is judged in a process that has a limit of both.
    """
    if len(text) > length:
        return f"{len(text)} characters, where {length} are the limit"
    # Most answers are printable ASCII, which has none of these.
    for character in "" if text.isascii() and text.isprintable() else text:
        category = unicodedata.category(character)
        if category in _UNPRINTABLE and character not in _BLANKS:
            return f"the character U+{ord(character):04X} of category {category}"
    digits = max((len(run) for run in re.findall(r"\d+", text)), default=0)
    if digits > LONGEST_NUMBER:
        return f"{digits} digits in a row, where {LONGEST_NUMBER} are the limit"
    depth = _nesting(text)
    if depth > DEEPEST_NESTING:
        return f"brackets {depth} deep, where {DEEPEST_NESTING} is the limit"
    return _excess_of_powers(text) if powers else ""


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in _CLOSING:
            depth += 1
            deepest = max(deepest, depth)
        elif character in _CLOSING.values():
            depth = max(depth - 1, 0)
    return deepest


def _excess_of_powers(text: str) -> str:
    for power in _POWER.finditer(text):
        start = _end(_BEFORE_EXPONENT, text, power.end())
        end = _end_of_exponent(text, start)
        exponent = text[start:end]
        if _POWER.search(exponent) or _POWER.match(text, _end(_BLANK, text, end)):
            return "a power in an exponent"
        if re.search(rf"\d{{{LONGEST_EXPONENT + 1}}}", exponent):
            return f"an exponent of more than {LONGEST_EXPONENT} digits"
    return ""


def _end_of_exponent(text: str, start: int) -> int:
    if text[start : start + 1] not in _CLOSING:
        return _end(_ATOM, text, start)
    opening = text[start]
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == opening) - (text[place] == _CLOSING[opening])
        if not depth:
            return place + 1
    return len(text)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    # Each pattern may be empty, so it matches anywhere.
    match = pattern.match(text, start)
    assert match is not None
    return match.end()
