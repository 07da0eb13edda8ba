"""A response as markup: few bytes per token, its numbers packed into an attribute.

A token has six numbers, each of which would be about seven characters long. Three
digits with any exponent are packed into three characters, and heat.js unpacks them when
a reader asks for them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from markupsafe import Markup

from entrometer.report.influence.colours import QUANTITIES, Scale, letters
from entrometer.report.influence.updates import Answer
from entrometer.report.numbers import number, with_error
from entrometer.report.text import shown

LETTERS = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in "\"&'<>")
"""Characters that an attribute can hold without escapes."""


@dataclass(frozen=True)
class Code:
    r"""Numbers $\pm m\,10^e$ with $10^{d-1} \le m < 10^d$, as a number to base 89.

    0 stands for a number that was not measured or is too large, 1 for zero and for a
    number that is too small.
    """

    length: int
    digits: int
    signs: int
    lowest: int
    """Smallest exponent."""

    @property
    def mantissas(self) -> int:
        """Number of mantissas."""
        return 9 * self._first

    @property
    def exponents(self) -> int:
        """Number of exponents that there is room for."""
        return (int(len(LETTERS) ** self.length) - 2) // (self.mantissas * self.signs)

    @property
    def _first(self) -> int:
        return int(10 ** (self.digits - 1))

    def write(self, x: float) -> str:
        """Return a number as `length` characters."""
        place = self._place(x)
        text = ""
        for _ in range(self.length):
            place, letter = divmod(place, len(LETTERS))
            text = LETTERS[letter] + text
        return text

    def _place(self, x: float) -> int:
        if not math.isfinite(x) or (x < 0 and self.signs == 1):
            return 0
        mantissa, _, exponent = f"{abs(x):.{self.digits - 1}e}".partition("e")
        power = int(exponent) - (self.digits - 1) - self.lowest
        if x == 0 or power < 0:
            return 1
        if power >= self.exponents:
            return 0
        m = int(mantissa.replace(".", "")) - self._first
        return 2 + ((x < 0) * self.mantissas + m) * self.exponents + power


INFLUENCE = Code(length=3, digits=3, signs=2, lowest=-195)
ERROR = Code(length=2, digits=2, signs=1, lowest=-60)
NATS = Code(length=2, digits=3, signs=1, lowest=-7)
CODES = (INFLUENCE, ERROR, INFLUENCE, ERROR, NATS, NATS)
"""Numbers of a token: influence on entropy and error, on reward and error, −S, H."""

LENGTH = sum(code.length for code in CODES)


def pack(rows: Sequence[Sequence[float]]) -> str:
    """Return the numbers of a response, one row per token."""
    return "".join(
        code.write(x) for row in rows for code, x in zip(CODES, row, strict=True)
    )


_TOKEN = len("<b class=aaaa></b>") + LENGTH


def at_least(answer: Answer) -> int:
    """Return the fewest bytes that an answer can take."""
    return _TOKEN * len(answer.tokens)


def response(answer: Answer, rate: float, scales: Sequence[Scale]) -> Markup:
    """Return the facts of a response, and its tokens in their colours."""
    rows = np.array(
        [
            (
                *(rate * t.entropy, rate * t.entropy_se),
                *(rate * t.reward, rate * t.reward_se),
                *(-t.S, t.H),
            )
            for t in answer.tokens
        ]
    )
    columns = (rows[:, 0], rows[:, 2], rows[:, 4], rows[:, 5])
    coloured = letters([s.classes(c) for s, c in zip(scales, columns, strict=True)])
    body = "".join(
        token(t.text, codes) for t, codes in zip(answer.tokens, coloured, strict=True)
    )
    # The packed numbers need no escape: see LETTERS.
    return Markup(
        f"<p class=facts>{facts(answer)}</p>"
        f"<p class=t tabindex=0 role=group aria-label=Tokens "
        f'data-v="{pack(rows.tolist())}">{body}</p>\n'
    )


def token(text: str, codes: str) -> str:
    """Return a token with the letters of its colours; `u` is one with a newline."""
    tag = "u" if "\n" in text else "b"
    # A single letter could be a class of the page's style sheet.
    name = codes if len(codes) == len(QUANTITIES) else f"_{codes}"
    return f"<{tag} class={name}>{_shown(text)}</{tag}>"


def facts(answer: Answer) -> str:
    """Return reward, advantage and influence of a response in words."""
    reward = answer.influence["reward"]
    entropy = answer.influence["entropy"]
    scored = answer.reward == answer.reward
    got = f"reward {number(answer.reward)}" if scored else "not scored"
    return (
        f"Response {answer.number}: {got}, advantage {number(answer.advantage, 2)}; "
        f"influence on entropy {with_error(entropy.value, entropy.se)}, "
        f"on reward {with_error(reward.value, reward.se)}"
    )


@cache
def _shown(text: str) -> str:
    return str(shown(text))
