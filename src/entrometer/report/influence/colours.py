"""Thirteen colours per quantity: which one a number gets, and their style sheet.

Blue and orange are distinct to the colour-blind. They also differ in lightness, which
remains in greyscale, and a line below or above a token repeats the sign.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.report.influence.updates import OBJECTIVES, Influences

CLASSES = 13
_MIDDLE = CLASSES // 2
_LAST = 99.0
"""Percentile of the sizes above which all numbers have the last colour."""
MODES = {
    # Paper, below zero, above zero, without a sign.
    "light": ("#ffffff", "#0a3a82", "#f0922e", "#0b4a48"),
    "dark": ("#15171a", "#2f6ccb", "#ffc06b", "#8fe3d8"),
}
BLACK, WHITE = "#000000", "#ffffff"
_LINES = (3, 2, 2, 1, 1, 1)
"""Pixels of the line under (-) or over (+) a token, strongest class first."""

# OKLab, in which steps of equal length look equal (Ottosson, 2020).
_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


@dataclass(frozen=True)
class Quantity:
    """A quantity by which tokens can be coloured."""

    key: str
    name: str
    letters: str
    """One letter per colour, which no other quantity has: a token has four letters."""
    diverging: bool
    """Whether zero has the middle colour, for both signs; else it has the first."""


QUANTITIES = (
    Quantity("entropy", "influence on entropy", "abcdefghijklm", True),
    Quantity("reward", "influence on reward", "nopqrstuvwxyz", True),
    Quantity("S", "log-probability", "ABCDEFGHIJKLM", False),
    Quantity("H", "entropy", "NOPQRSTUVWXYZ", False),
)


@dataclass(frozen=True)
class Scale:
    """Colours of a quantity by the square root of its size: small values differ too."""

    quantity: Quantity
    top: float
    """Size above which all numbers have the last colour."""

    def classes(self, values: Float[np.ndarray, "n"]) -> list[str]:
        """Return the colour letter of each value; an empty text for NaN."""
        with np.errstate(invalid="ignore"):
            size = np.sqrt(np.minimum(np.abs(values) / self.top, 1.0))
        if self.quantity.diverging:
            place = _MIDDLE + np.sign(values) * np.rint(_MIDDLE * size)
        else:
            place = np.rint((CLASSES - 1) * size)
        letters = self.quantity.letters
        return [letters[int(p)] if math.isfinite(p) else "" for p in place.tolist()]

    def centres(self) -> list[tuple[str, float]]:
        """Return each colour letter with the value in the middle of its range."""
        if self.quantity.diverging:
            steps = (np.arange(CLASSES) - _MIDDLE) / _MIDDLE
            values = np.sign(steps) * steps**2 * self.top
        else:
            steps = np.arange(CLASSES) / (CLASSES - 1)
            # Log-probabilities are below zero.
            values = steps**2 * self.top * (-1 if self.quantity.key == "S" else 1)
        return list(zip(self.quantity.letters, (values + 0.0).tolist(), strict=True))


def scales(influences: Influences) -> tuple[Scale, ...]:
    """Return one scale per quantity, the same for every update of the page."""
    return tuple(Scale(q, _top(column(influences, q.key))) for q in QUANTITIES)


def column(influences: Influences, name: str) -> Iterable[float]:
    """Yield quantity `name` of every token; an influence is times the learning rate."""
    for update in influences.updates:
        rate = update.rate if name in OBJECTIVES else 1.0
        every = (token for answer in update.answers for token in answer.tokens)
        yield from (rate * getattr(token, name) for token in every)


def _top(values: Iterable[float]) -> float:
    sizes = np.abs(np.fromiter(values, np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.percentile(sizes, _LAST)) if sizes.size else 1.0


def palette(mode: str) -> tuple[list[str], list[str]]:
    """Return the colours from negative to positive, and those from 0 up, for a mode."""
    paper, below, above, plain = MODES[mode]
    left, right = (ramp(paper, end, _MIDDLE + 1) for end in (below, above))
    return [*left[::-1], *right[1:]], ramp(paper, plain, CLASSES)


def ramp(start: str, end: str, count: int) -> list[str]:
    """Return `count` colours from `start` to `end`, at equal perceived distances."""
    a, b = (_LAB @ np.cbrt(_LMS @ linear(colour)) for colour in (start, end))
    return [_hex(a + (b - a) * k / (count - 1)) for k in range(count)]


def linear(colour: str) -> Float[np.ndarray, "3"]:
    """Return red, green and blue of a colour `#rrggbb` as linear light, 0 to 1."""
    x = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the WCAG contrast ratio of two colours, 1 to 21."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(c)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def ink(ground: str) -> str:
    """Return black or white, whichever has more contrast to the background `ground`."""
    return max((BLACK, WHITE), key=lambda c: contrast(c, ground))


def css() -> str:
    """Return the CSS rules that colour each token by the selected quantity."""
    light, dark = (f":root{{{_variables(mode)}}}" for mode in MODES)
    rules = [light, f"@media (prefers-color-scheme:dark){{{dark}}}"]
    for place in range(CLASSES):
        for diverging, name in ((True, "d"), (False, "s")):
            chosen = ",".join(
                f"main:has(#by-{q.key}:checked) .t>[class*={q.letters[place]}]"
                for q in QUANTITIES
                if q.diverging == diverging
            )
            body = f"background:var(--{name}{place});color:var(--{name}i{place})"
            rules.append(f"{chosen}{{{body}{_line(place) if diverging else ''}}}")
    return "\n".join(rules)


def _line(place: int) -> str:
    if place == _MIDDLE:
        return ""
    side = "underline" if place < _MIDDLE else "overline"
    thick = _LINES[min(place, CLASSES - 1 - place)]
    return f";text-decoration:{side} {thick}px"


def _variables(mode: str) -> str:
    return ";".join(
        f"--{name}{place}:{colour};--{name}i{place}:{ink(colour)}"
        for name, colours in zip("ds", palette(mode), strict=True)
        for place, colour in enumerate(colours)
    )


def _hex(lab: Float[np.ndarray, "3"]) -> str:
    light = np.linalg.solve(_LMS, np.linalg.solve(_LAB, lab) ** 3).clip(0, 1)
    x = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * v):02x}" for v in x.tolist())
