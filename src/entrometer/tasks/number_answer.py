"""Answers to a task whose reference is a number: the grammar in docs/tasks.md.

An answer is one number and what may stand around it without changing its value. Text
outside the grammar is no answer, whatever number may be in it: a policy that is
rewarded for "not 18" or for "14 + 4" learns to write that.
"""

import re
from fractions import Fraction

from entrometer.tasks.number_unit import is_unit
from entrometer.tasks.number_value import leading_number

MOST_LAYERS = 8
"""Layers of markup around a number, such as the two of `$\\boxed{18}$`."""

# Longer marks first: `**` is not two times `*`.
_MARKS = {mark: mark for mark in ("***", "**", "*", "__", "_", "```", "`", "$$", "$")}
_MARKS |= {'"': '"', "'": "'", "“": "”", "‘": "’"}
_MARKS |= {r"\(": r"\)", r"\[": r"\]", r"\left(": r"\right)"}
_OPENING = re.compile("|".join(map(re.escape, _MARKS)))
# `\$` is a currency, and closes nothing.
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
    """Return the number that an answer states, None if it is outside the grammar."""
    return _read(text, bare=False)


def read_reference(text: str) -> Fraction | None:
    """Return the number that a reference is, None if it is something else.

    A reference has neither a unit nor words around it: `2x` is an expression there,
    which math-verify compares, and not two of a unit.
    """
    return _read(text, bare=True)


def _read(text: str, *, bare: bool) -> Fraction | None:
    pending = [] if bare else [_LEAD_IN, _EQUATION]
    closed, behind = False, ""
    for _ in range(MOST_LAYERS + 1):
        text = text.strip()
        if not closed and text.endswith("."):
            text, closed = text[:-1].rstrip(), True
        # Most answers are bare: no lead-in and no markup starts like this.
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
    value, currency, rest = number
    rest = rest or behind
    if bare:
        fits = rest.strip() in ("", "%", r"\%")
    else:
        fits = not rest or is_unit(rest, currency=currency)
    return value if fits else None


def _peel(text: str) -> tuple[str, str] | None:
    """The inside of the outermost layer of markup and what is behind it, if any."""
    if opening := _OPENING.match(text):
        closing = _CLOSING[opening[0]].search(text, opening.end())
        # A dollar that is never closed is a currency.
        return closing and (
            text[opening.end() : closing.start()],
            text[closing.end() :],
        )
    command = _COMMAND.match(text)
    if not command and not text.startswith("("):
        return None
    start = command.end() if command else 1
    end = _end_of_bracket(text, start, "{}" if command else "()")
    return None if end < 0 else (text[start:end], text[end + 1 :])


def _end_of_bracket(text: str, start: int, pair: str) -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if not depth:
            return place
    return -1
