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

    every: int = 0
    """Steps between evaluations, besides those at halvings and at the end; 0: none."""

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
        "every": 0,
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
        for name in ("steps", "every"):
            if getattr(self, name) % self.window:
                raise InvalidValue(
                    f"expected {name} to be a multiple of window={self.window}, got "
                    f"{getattr(self, name)}; change one of them"
                )
        if self.steps < self.window * 2**self.halvings:
            raise InvalidValue(
                f"expected at least {self.window * 2**self.halvings} steps for "
                f"{self.halvings} halvings, got {self.steps}; use fewer halvings, or "
                "more steps"
            )

    @property
    def halved_after(self) -> tuple[int, ...]:
        """Steps after which the worse half of the losses is stopped."""
        rounds = self.steps // self.window
        return tuple(rounds // 2**k * self.window for k in range(self.halvings, 0, -1))

    @property
    def evaluated_after(self) -> tuple[int, ...]:
        """Steps after which all continuations that still go on are evaluated."""
        between = range(self.every, self.steps, self.every) if self.every else ()
        return tuple(sorted({*between, *self.halved_after, self.steps}))
