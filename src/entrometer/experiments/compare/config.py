"""Settings of `compare`."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import MOST, InvalidValue
from entrometer.experiments.config import NextBatchesConfig

_MINIBATCH = re.compile(r"([1-9]\d*)/([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class CompareConfig(NextBatchesConfig):
    """Checkpoints, updates at each, and the interventions to compare there."""

    interventions: tuple[str, ...] = ()
    """Interventions as `name`, whose strength is swept, or `name:setting=value`; if
    none is given, all whose tables a comparison measures."""

    minibatches: tuple[str, ...] = ("1/1", "2/2")
    """Steps to compare at: `j/J` is the j-th over J parts of the update, after j-1
    plain steps; above J in further epochs. With several updates, later minibatches
    have a verdict over updates too."""

    folds: int = 8
    """Parts of the evaluation batch, by prompt: half choose tokens, half measure."""

    eta: float = 0.0
    """Learning rate of the compared steps; 0 for the training's."""

    truth: bool = True
    """Whether to take each intervention's step too, not only to predict its effect."""

    keep_loss: bool = True
    """Whether interventions change the loss that the training recorded, if it did;
    otherwise they change plain Dr-GRPO."""

    prices: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
    """Prices of entropy along the frontier; at 1, the summed influence on entropy
    weighs as much as that on reward."""

    AT_LEAST: ClassVar[dict[str, int]] = NextBatchesConfig.AT_LEAST | {"folds": 4}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < math.inf:
            raise InvalidValue(f"expected a finite eta of at least 0, got {self.eta}")
        # NaN fails this comparison too.
        if not self.prices or not all(0 <= x < math.inf for x in self.prices):
            raise InvalidValue(f"expected prices >= 0 and finite, got {self.prices}")
        for text, (part, parts) in zip(self.minibatches, self.parts, strict=True):
            if not (part >= 1 and 1 <= parts <= MOST and part <= MOST):
                raise InvalidValue(
                    f"expected a minibatch j/J with j and J from 1, got {text!r}; 1/1 "
                    "is the whole update, 2/4 the second of four parts, 6/4 the second "
                    "in a second epoch"
                )

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Each minibatch `j/J` as the numbers (j, J); (0, 0) for any other text."""
        matches = map(_MINIBATCH.fullmatch, self.minibatches)
        return [(int(m[1]), int(m[2])) if m else (0, 0) for m in matches]
