"""What a comparison of interventions is told."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig

_MINIBATCH = re.compile(r"([1-9]\d*)/([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class CompareConfig(ExperimentConfig):
    """Checkpoints, updates at each, and the interventions to compare there."""

    interventions: tuple[str, ...] = ()
    """`name` or `name:setting=value`; none for all that are known. The strength of one
    without settings is swept."""

    minibatches: tuple[str, ...] = ("1/1", "2/2")
    """Where in an update: `j/J` is the j-th of J parts, after j-1 plain steps."""

    folds: int = 8
    """Parts of E by prompt, half of which choose and half of which judge."""

    eta: float = 0.0
    """Learning rate; 0 for the training's."""

    truth: bool = True
    """Whether each intervention's step is formed anew and taken."""

    prices: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
    """Prices of entropy along the frontier; 1 weighs it as much as reward in all."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {"folds": 4}

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is loaded."""
        super().__post_init__()
        if not 0 <= self.eta < math.inf:
            raise InvalidValue(f"expected eta from 0, got {self.eta}")
        if not self.prices or not all(0 <= x < math.inf for x in self.prices):
            raise InvalidValue(f"expected prices from 0, got {self.prices}")
        for text in self.minibatches:
            part_of(text)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The minibatches as numbers."""
        return [part_of(text) for text in self.minibatches]


def part_of(text: str) -> tuple[int, int]:
    """Read `j/J`."""
    found = _MINIBATCH.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise InvalidValue(
            f"expected a minibatch j/J with j up to J, got {text!r}; 1/1 is the whole "
            "update, 2/4 the second of four parts"
        )
    return int(found[1]), int(found[2])
