"""What a measurement of the kernel measures, complete."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ExperimentConfig):
    """Checkpoints, updates at each, and the sequences that the kernel is between."""

    kernel_prompts: int = 32
    """Prompts of the kernel's sequences, other than those of a sampled update."""

    kernel_responses: int = 8
    """Responses to each of them, drawn at the checkpoint."""

    held_out: int = 64
    """Responses to prompts of their own, a response each, whose change is predicted."""

    sketches: tuple[int, ...] = (256, 1024, 4096, 16384)
    """Buckets of the sketches; each divides the largest."""

    eigenvalues: int = 0
    """Largest eigenvalues that are found without the matrix too: dozens of passes over
    all sequences, for where there is no room for the matrix."""

    eta: float = 0.0
    """Learning rate at which changes are measured; 0 for the training's."""

    sketch_above: int = 4096
    """More sequences than this are sketched, by the largest sketch, not exact."""

    memory: float = 8.0
    """GB that rows of gradients may take at once: fewer cost more passes."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {
        "kernel_prompts": 3,
        "kernel_responses": 2,
        "held_out": 1,
        "eigenvalues": 0,
        "sketch_above": 1,
    }

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is loaded."""
        super().__post_init__()
        if not 0 <= self.eta < math.inf or not 0 < self.memory < math.inf:
            raise InvalidValue(
                "expected a learning rate from 0 and memory above 0, got "
                f"{self.eta} and {self.memory}"
            )
        if not self.sketches or min(self.sketches) < 1:
            raise InvalidValue(
                f"expected sketches of at least one bucket, got {self.sketches}"
            )
        uneven = [m for m in self.sketches if max(self.sketches) % m]
        if uneven:
            raise InvalidValue(
                f"expected sketches that divide the largest, {max(self.sketches)}, got "
                f"{uneven}; take powers of two"
            )

    @property
    def sequences(self) -> int:
        """Sequences of the kernel."""
        return self.kernel_prompts * self.kernel_responses

    @property
    def exact(self) -> bool:
        """Whether the kernel itself is formed, and not its sketch."""
        return self.sequences <= self.sketch_above
