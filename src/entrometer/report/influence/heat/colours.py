"""Thirteen colours for numbers with a sign and thirteen for those without, as CSS.

Blue and orange are told apart by the colour-blind. They differ in lightness as well,
which is left in greyscale, and a line below or above a token says the sign again.
"""

import numpy as np
from jaxtyping import Float

from entrometer.report.influence.heat.scale import CLASSES, QUANTITIES

MODES = {
    # Paper, below zero, above zero, without a sign.
    "light": ("#ffffff", "#0a3a82", "#f0922e", "#0b4a48"),
    "dark": ("#15171a", "#2f6ccb", "#ffc06b", "#8fe3d8"),
}
BLACK, WHITE = "#000000", "#ffffff"
_LINES = (3, 2, 2, 1, 1, 1)
"""Thickness of the line of a sign, from the last class to the middle."""

# OKLab, in which steps of the same length look alike (Ottosson, 2020).
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


def palette(mode: str) -> tuple[list[str], list[str]]:
    """Colours from the most negative to the most positive, and from 0 up."""
    paper, below, above, plain = MODES[mode]
    half = CLASSES // 2 + 1
    sides = ramp(paper, below, half)[::-1], ramp(paper, above, half)[1:]
    return [*sides[0], *sides[1]], ramp(paper, plain, CLASSES)


def ramp(start: str, end: str, count: int) -> list[str]:
    """Colours at the same distance from one another."""
    a, b = (_LAB @ np.cbrt(_LMS @ linear(colour)) for colour in (start, end))
    return [_hex(a + (b - a) * k / (count - 1)) for k in range(count)]


def linear(colour: str) -> Float[np.ndarray, "3"]:
    """Light of red, green and blue."""
    x = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Of a text on its ground, as WCAG has it: 1 to 21."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(c)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def ink(ground: str) -> str:
    """Black or white, whichever is read better."""
    return max((BLACK, WHITE), key=lambda c: contrast(c, ground))


def css() -> str:
    """Rules that colour each token by the quantity that is switched on."""
    light, dark = (_variables(mode) for mode in MODES)
    rules = [f":root{{{light}}}"]
    rules.append(f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}")
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
    middle = CLASSES // 2
    if place == middle:
        return ""
    side = "underline" if place < middle else "overline"
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
