"""Settings of `fork`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from entrometer.errors import InvalidValue
from entrometer.experiments.config import BatchConfig


@dataclass(frozen=True, kw_only=True)
class ForkConfig(BatchConfig):
    """Checkpoints, and the losses under which training continues from each."""

    interventions: tuple[str, ...] = ()
    """Losses to train under, each as `name` or `name:setting=value`; plain Dr-GRPO is
    added."""

    steps: int = 16
    """Optimizer steps of a whole continuation."""

    seeds: int = 4
    """Continuations under each loss. The k-th of every loss has the same prompts and
    random numbers."""

    window: int = 1
    """Optimizer steps per round of sampling, each on different responses."""

    halvings: int = 0
    """Number of times that the worse half of the losses is stopped, after 1/2, 1/4, …
    of the steps; plain goes on. With 0, all losses take all steps."""

    by: Literal["entropy", "reward"] = "reward"
    """What a loss must keep or raise to go on at a halving."""

    OF_TRAINING: ClassVar[dict[str, str]] = {
        "update_prompts": "prompts",
        "update_responses": "responses",
        "window": "window",
    }

    AT_LEAST: ClassVar[dict[str, int]] = BatchConfig.AT_LEAST | {
        "steps": 1,
        "seeds": 2,
        "window": 1,
        "halvings": 0,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.interventions:
            raise InvalidValue(
                "expected at least one loss to continue under, got none; give "
                "--interventions, such as entropy-bonus clip-higher:high=0.28"
            )
        if self.sampler is not None:
            raise InvalidValue(
                "expected responses sampled by the continued policy itself, which "
                f"changes at each step, got sampler={self.sampler!r}; leave it out"
            )
        if self.steps % self.window:
            raise InvalidValue(
                f"expected steps to be a multiple of window={self.window}, got "
                f"{self.steps}; change one of them"
            )
        if self.rungs[0] == 0 or len(set(self.rungs)) < len(self.rungs):
            raise InvalidValue(
                f"expected at least {self.window * 2**self.halvings} steps for "
                f"{self.halvings} halvings, got {self.steps}; use fewer halvings, or "
                "more steps"
            )

    @property
    def rungs(self) -> tuple[int, ...]:
        """Steps after which losses are evaluated: those of each halving, then all."""
        rounds = self.steps // self.window
        parts = (2**k for k in range(self.halvings, -1, -1))
        return tuple(rounds // part * self.window for part in parts)
