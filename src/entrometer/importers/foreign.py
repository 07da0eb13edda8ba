"""What a checkpoint of any framework comes down to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

EVERY_PROCESS = (
    "Every process of the training saved one; copy the whole directory again, from all "
    "nodes."
)
"""What to do about a file that is missing."""


class Lora(NamedTuple):
    """Shape of the adapter that was trained."""

    rank: int
    alpha: float
    targets: tuple[str, ...]
    """Last parts of the names of the modules that have one."""


@dataclass(frozen=True, eq=False)
class Foreign:
    """Whole weights, and AdamW in the middle of its work, by names of parameters."""

    about: Path
    """Directory with `config.json` and the tokenizer."""

    lora: Lora | None
    """None where the model itself was trained."""

    weights: Mapping[str, Tensor]
    """Of the model as it was trained: those of an adapter among them."""

    first_moment: Mapping[str, Tensor]
    second_moment: Mapping[str, Tensor]
    """Of the parameters that were trained."""

    weight_decay: Mapping[str, float]

    step: int
    """Steps that the optimizer took: a round of sampling may have several."""

    learning_rate: float
    """Of the step to come."""

    betas: tuple[float, float]
    epsilon: float
