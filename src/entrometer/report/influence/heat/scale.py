"""Which of thirteen colours a number has, and by which letter a token says so."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.report.influence.updates import Influences

CLASSES = 13
_MIDDLE = CLASSES // 2
_LAST = 99.0
"""Percentile of the sizes from which on all have the last colour."""


@dataclass(frozen=True)
class Quantity:
    """What a token can be coloured by."""

    key: str
    name: str
    letters: str
    """Of its classes, no other quantity's: a token's four letters are its colours."""
    diverging: bool
    """Whether zero is in the middle, or at the start."""


QUANTITIES = (
    Quantity("entropy", "influence on entropy", "abcdefghijklm", True),
    Quantity("reward", "influence on reward", "nopqrstuvwxyz", True),
    Quantity("S", "log-probability", "ABCDEFGHIJKLM", False),
    Quantity("H", "entropy", "NOPQRSTUVWXYZ", False),
)


@dataclass(frozen=True)
class Scale:
    """Sizes of one quantity by their root, so that small ones are told apart too."""

    quantity: Quantity
    top: float
    """Size from which on all have the last colour."""

    def classes(self, values: Float[np.ndarray, "n"]) -> list[str]:
        """The letter of each value; none for what was not measured."""
        with np.errstate(invalid="ignore"):
            size = np.sqrt(np.minimum(np.abs(values) / self.top, 1.0))
        if self.quantity.diverging:
            place = _MIDDLE + np.sign(values) * np.rint(_MIDDLE * size)
        else:
            place = np.rint((CLASSES - 1) * size)
        letters = self.quantity.letters
        return [letters[int(p)] if math.isfinite(p) else "" for p in place.tolist()]

    def centres(self) -> list[tuple[str, float]]:
        """Each letter with the value in the middle of its class."""
        if self.quantity.diverging:
            steps = (np.arange(CLASSES) - _MIDDLE) / _MIDDLE
            values = np.sign(steps) * steps**2 * self.top
        else:
            steps = np.arange(CLASSES) / (CLASSES - 1)
            # Log-probabilities are below zero.
            values = steps**2 * self.top * (-1 if self.quantity.key == "S" else 1)
        return list(zip(self.quantity.letters, (values + 0.0).tolist(), strict=True))


def scales(found: Influences) -> tuple[Scale, ...]:
    """One scale for each quantity, the same for every update of the page."""
    return tuple(Scale(q, _top(column(found, q.key))) for q in QUANTITIES)


def column(found: Influences, name: str) -> Iterable[float]:
    """One quantity of every token, as it is shown."""
    for update in found.updates:
        rate = update.rate if name in ("entropy", "reward") else 1.0
        for answer in update.answers:
            for token in answer.tokens:
                yield rate * getattr(token, name)


def _top(values: Iterable[float]) -> float:
    sizes = np.abs(np.fromiter(values, np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.percentile(sizes, _LAST)) if sizes.size else 1.0


def letters(columns: Sequence[Sequence[str]]) -> list[str]:
    """The letters of each token, one of each quantity."""
    return ["".join(own) for own in zip(*columns, strict=True)]
