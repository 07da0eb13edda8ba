"""Result tables of `entrometer trajectory`.

Changes are in nats per token for `entropy` and in reward per response for `reward`.
A prediction is to first order, of one of two kinds: by `updates`, the slope along the
recorded update of a checkpoint times the learning rate, which stands for all steps up
to the next checkpoint; or by `weights`, the mean of the slopes at both ends of an
interval along the difference of the two checkpoints' weights, which holds every step.
`x`, `x_se`, `x_low` and `x_high` are an estimate, its standard error and the ends of
its 95% interval; NaN means not known. Measured levels and changes have errors clustered
by evaluation prompt, and predictions and what is compared with them have errors over
folds of the same prompts, which are the same at every checkpoint.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.subjects import OfCheckpoint
from entrometer.runs.tables.texts import Text


@dataclass(frozen=True, kw_only=True)
class Level(OfCheckpoint):
    """Entropy or expected reward at a checkpoint, and its predictions so far."""

    step: int  #: Optimizer steps of the checkpoint.
    objective: str  #: `entropy` or `reward`.
    value: float
    """Measured level, on fresh responses to the evaluation prompts."""
    value_se: float
    value_low: float
    value_high: float
    change: float
    """Measured change since the first checkpoint, paired by prompt."""
    change_se: float
    change_low: float
    change_high: float
    updates: float
    """Sum of the predictions by updates since the first checkpoint."""
    updates_se: float
    updates_low: float
    updates_high: float
    weights: float
    """Sum of the predictions by weights since the first checkpoint."""
    weights_se: float
    weights_low: float
    weights_high: float
    prompts: int  #: Number of evaluation prompts.
    responses: float
    """Effective number of responses: fewer than there are if another policy sampled."""


@dataclass(frozen=True, kw_only=True)
class IntervalChange(OfCheckpoint):
    """Change from a checkpoint to the next one: a part of its prediction, measured."""

    step: int  #: Optimizer steps of the checkpoint at its start.
    steps: int
    """Number of its steps; all but the first are assumed to be like the first."""
    learning_rate: float  #: Learning rate of the first step.
    objective: str
    part: str
    """`batch`, `history` (momentum), `decay`, their sum `updates`, or `weights`."""
    predicted: float
    predicted_se: float
    predicted_low: float
    predicted_high: float
    measured: float
    """Measured change of the interval, equal in the rows of all parts."""
    measured_se: float
    measured_low: float
    measured_high: float
    difference: float
    """Predicted minus measured change, for `updates` and `weights`; else NaN."""
    difference_se: float
    difference_low: float
    difference_high: float


@dataclass(frozen=True, kw_only=True)
class Explained:
    """How much of the measured change a prediction explains.

    In total, from the first checkpoint to the last one, and interval by interval.
    """

    objective: str
    prediction: str  #: `updates` or `weights`.
    first: str  #: Name of the first checkpoint.
    last: str  #: Name of the last checkpoint.
    steps: int  #: Optimizer steps between them.
    updates: int  #: Number of intervals, each with one recorded update.
    predicted: float
    predicted_se: float
    predicted_low: float
    predicted_high: float
    measured: float
    measured_se: float
    measured_low: float
    measured_high: float
    share: float
    """Predicted over measured change; 1 if the prediction is exact."""
    share_se: float
    share_low: float
    share_high: float
    slope: float
    """Slope through 0 of the intervals' measured changes on the predicted ones. Noise
    of the predictions lowers it."""
    slope_se: float
    slope_low: float
    slope_high: float
    correlation: float
    """Correlation of predicted and measured changes over the intervals."""
    correlation_se: float
    correlation_low: float
    correlation_high: float
    covered: int
    """Intervals in which predicted minus measured change is not distinguishable from
    0: its own 95% interval contains 0."""


@dataclass(frozen=True, kw_only=True)
class Summed:
    """Predictions by updates of a part or of a kind of token, summed over the run."""

    objective: str
    by: str
    """`part` of the update: `batch`, `history` (momentum), `decay`; or `kind` of the
    batch's tokens, which add up to `batch`."""
    name: str  #: Name of the part, or class of the tokens.
    tokens: int  #: Number of tokens in all recorded batches; 0 for a part.
    value: float
    value_se: float
    value_low: float
    value_high: float


@dataclass(frozen=True, kw_only=True)
class TrainedPrompt:
    """What the responses to a prompt did to entropy and reward, in all its updates.

    Changes at the learning rates of the updates, summed over the recorded updates,
    which do not stand for others.
    """

    prompt: str  #: Its id, a hash of its token ids.
    text: Text  #: The prompt as text.
    updates: int  #: Number of recorded updates in which it appeared.
    responses: int
    mean_reward: float
    """Mean reward of its responses: its pass rate where a reward is 0 or 1."""
    entropy: float
    entropy_se: float
    entropy_low: float
    entropy_high: float
    reward: float
    reward_se: float
    reward_low: float
    reward_high: float


@dataclass(frozen=True, kw_only=True)
class Concentration:
    """How few of the training's prompts account for half of what drains entropy.

    Prompts are ordered by half of the evaluation folds and measured by the other half.
    """

    prompts: int  #: Number of prompts in the recorded updates.
    half: int
    """Least number of prompts that account for half of the drain; 0 without any."""
    drain: float
    """The lowest sum over the prompts that drain most: those after them add entropy."""
    drained: float
    """Sum over the `half` prompts, in nats per token."""
    drained_se: float
    drained_low: float
    drained_high: float


@dataclass(frozen=True)
class TrajectoryTables:
    """All tables of a trajectory."""

    total: list[Explained] = field(default_factory=list)
    curve: list[Level] = field(default_factory=list)
    intervals: list[IntervalChange] = field(default_factory=list)
    sums: list[Summed] = field(default_factory=list)
    concentration: list[Concentration] = field(default_factory=list)
    prompts: list[TrainedPrompt] = field(default_factory=list)
