"""Numbers in few characters: three digits with any exponent are three of them.

A token has six numbers, each of which would be about seven characters long. They are
kept in an attribute of the response, and heat.js reads them when they are asked for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LETTERS = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in "\"&'<>")
"""What an attribute can hold as it is."""


@dataclass(frozen=True)
class Code:
    r"""Numbers $\pm m\,10^e$ with $10^{d-1} \le m < 10^d$, as a number to base 89.

    0 is what was not measured and 1 is zero. What is too small is zero, and what is too
    large was not measured.
    """

    length: int
    digits: int
    signs: int
    lowest: int
    """The smallest exponent."""

    @property
    def mantissas(self) -> int:
        """How many there are."""
        return 9 * self._first

    @property
    def exponents(self) -> int:
        """How many there is room for."""
        return (int(len(LETTERS) ** self.length) - 2) // (self.mantissas * self.signs)

    @property
    def _first(self) -> int:
        return int(10 ** (self.digits - 1))

    def write(self, x: float) -> str:
        """So many characters for a number."""
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
"""Of a token: influence on entropy and its error, on reward and its error, −S, H."""

LENGTH = sum(code.length for code in CODES)


def pack(rows: Sequence[Sequence[float]]) -> str:
    """The numbers of a response, a row a token."""
    return "".join(
        code.write(x) for row in rows for code, x in zip(CODES, row, strict=True)
    )
