"""Result tables of `entrometer fork`.

Entropies are in nats per token, rewards per response, both on the evaluation batch,
whose prompts and random numbers are the same for every loss and seed. `x`, `x_se`,
`x_low` and `x_high` are an estimate, its standard error over seeds and evaluation
prompts, both of which are sampled, and the ends of its 95% interval; NaN means not
measured.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.subjects import OfCheckpoint


@dataclass(frozen=True, kw_only=True)
class LossOutcome(OfCheckpoint):
    """Where a loss leads after some steps, and how that differs from plain Dr-GRPO."""

    loss: str
    """Intervention with the settings that differ from their defaults."""
    steps: int
    """Optimizer steps since the checkpoint."""
    goes_on: bool
    """Whether the loss takes further steps; true after the last for those that did."""
    seeds: int  #: Continuations under the loss.
    prompts: int  #: Prompts of the evaluation batch.
    entropy: float
    entropy_se: float
    entropy_low: float
    entropy_high: float
    reward: float
    reward_se: float
    reward_low: float
    reward_high: float
    entropy_gain: float
    """Entropy minus that under plain Dr-GRPO, paired by seed and prompt; 0 without an
    interval for plain itself."""
    entropy_gain_se: float
    entropy_gain_low: float
    entropy_gain_high: float
    entropy_gain_p: float
    """Two-sided p-value of "the gain is 0"."""
    reward_gain: float
    reward_gain_se: float
    reward_gain_low: float
    reward_gain_high: float
    reward_gain_p: float
    passes: bool = False
    """Whether the gain by which losses are judged differs from 0 after the last step,
    at a false discovery rate of 5% over the losses of the checkpoint."""
    by: str = "reward"
    """What losses are judged by: `entropy` or `reward`."""


@dataclass(frozen=True, kw_only=True)
class StepTaken(OfCheckpoint):
    """An optimizer step of one continuation, and the batch that it was taken on."""

    loss: str
    seed: int  #: Number of the continuation, from 0.
    step: int
    """Optimizer steps since the checkpoint, this one included."""
    entropy: float
    """Mean entropy of the tokens of the training batch, before the step."""
    reward: float  #: Mean reward of the training batch.
    changed: float
    """Fraction of its tokens that have another weight than in plain Dr-GRPO."""
    settings: str
    """Loss of the step with its settings, which an adaptive loss changes."""


@dataclass(frozen=True, kw_only=True)
class PromptOutcome(OfCheckpoint):
    """An evaluation prompt after one continuation."""

    loss: str
    seed: int  #: Number of the continuation, from 0.
    steps: int
    """Optimizer steps since the checkpoint."""
    problem: int  #: Number of its problem in the task.
    responses: int
    tokens: int  #: Tokens of all responses.
    entropy: float
    """Sum over these tokens, in nats."""
    reward: float
    """Sum over the responses."""


@dataclass(frozen=True)
class ForkTables:
    """All tables of a fork."""

    outcomes: list[LossOutcome] = field(default_factory=list)
    taken: list[StepTaken] = field(default_factory=list)
    prompts: list[PromptOutcome] = field(default_factory=list)

    @property
    def last(self) -> list[LossOutcome]:
        """Rows after all steps; plain is the first of each checkpoint."""
        last = max((row.steps for row in self.outcomes), default=0)
        return [row for row in self.outcomes if row.steps == last]
