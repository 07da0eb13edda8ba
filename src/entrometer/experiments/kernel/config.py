"""Settings of a measurement of the kernel."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ExperimentConfig):
    """Checkpoints, updates at each, and the sequences of the kernel."""

    kernel_prompts: int = 32
    """Prompts of the kernel's sequences; sampled updates use other prompts."""

    kernel_responses: int = 8
    """Responses to each of the kernel's prompts, drawn from the checkpoint."""

    held_out: int = 64
    """Further prompts, one response each, whose change of log-prob is predicted."""

    sketches: tuple[int, ...] = (256, 1024, 4096, 16384)
    """Sizes of the sketches of the kernel, in buckets; each divides the largest."""

    eigenvalues: int = 0
    """Also compute so many largest eigenvalues without the matrix, by dozens of passes
    over all sequences; useful if the matrix does not fit in memory."""

    eta: float = 0.0
    """Learning rate of the step whose effect is predicted; 0 for the training's."""

    sketch_above: int = 4096
    """With more sequences than this, compute only the largest sketch of the kernel."""

    memory: float = 8.0
    """GB for rows of gradients; less memory costs more passes."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {
        "kernel_prompts": 3,
        "kernel_responses": 2,
        "held_out": 1,
        "eigenvalues": 0,
        "sketch_above": 1,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model_shards > 1:
            raise InvalidValue(
                "expected a model in one process for the kernel, whose rows are kept "
                f"there, got {self.model_shards} shards; leave out --model-shards"
            )
        # Written so that NaN fails too.
        if not 0 <= self.eta < math.inf or not 0 < self.memory < math.inf:
            raise InvalidValue(
                "expected a finite eta of at least 0 and a finite memory above 0, got "
                f"{self.eta} and {self.memory}"
            )
        if not self.sketches or min(self.sketches) < 1:
            raise InvalidValue(
                f"expected sketches, each of at least one bucket, got {self.sketches}"
            )
        uneven = [m for m in self.sketches if max(self.sketches) % m]
        # A smaller sketch is the larger one folded, so its buckets must line up.
        if uneven:
            raise InvalidValue(
                f"expected sketches that divide the largest, {max(self.sketches)}, got "
                f"{uneven}; take powers of two"
            )

    @property
    def sequences(self) -> int:
        """Number of sequences of the kernel."""
        return self.kernel_prompts * self.kernel_responses

    @property
    def exact(self) -> bool:
        """Whether the kernel itself is computed, and not a sketch."""
        return self.sequences <= self.sketch_above
