"""Result tables of `entrometer measure`.

Numbers are in nats per token, or per sequence if `per` says so. Intervals are 95%
intervals, clustered by prompt. `x`, `x_se`, `x_low` and `x_high` are an estimate, its
standard error and the ends of its interval; NaN means not measured.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.next_batches import BatchChange, ExpectedChange
from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfCheckpoint, OfUpdate
from entrometer.runs.tables.texts import Text


@dataclass(frozen=True, kw_only=True)
class Change(OfUpdate):
    """Entropy change at one learning rate, observed and predicted."""

    precision: str
    weighting: str
    """`sequence`, `per_decision` or `doubly_robust`."""
    baseline: str
    """`constant`, `position` or `prefix` for `doubly_robust`; else `none`."""
    per: str
    """`token` or `sequence`."""
    eta: float
    """Learning rate."""
    observed: float
    r"""$\Delta h(\eta)$."""
    observed_se: float
    observed_low: float
    observed_high: float
    linear: float
    r"""$\delta h_1 = \eta h'$, from the same samples."""
    linear_se: float
    linear_low: float
    linear_high: float
    quadratic: float
    r"""$\delta h_1 + \delta h_2 = \eta h' + \eta^2h''/2$, with the curvature from the
    first prompts alone."""
    quadratic_se: float
    error: float
    """Linear minus observed, paired by prompt."""
    error_se: float
    error_low: float
    error_high: float
    effective_samples: float
    """Effective sample size of the sequence weights, in responses."""
    largest_weight: float  #: Largest sequence weight of a response.
    prompts: int
    responses: int


@dataclass(frozen=True, kw_only=True)
class Term(OfUpdate):
    """Quantities that do not depend on the learning rate, one row per estimator."""

    precision: str
    weighting: str
    baseline: str
    per: str
    step: int
    """Optimizer steps of the checkpoint."""
    learning_rate: float
    """Learning rate of the training at the checkpoint."""
    entropy: float
    entropy_se: float
    entropy_low: float
    entropy_high: float
    slope: float
    r"""$h'$ along the update at unit learning rate."""
    slope_se: float
    slope_low: float
    slope_high: float
    curvature: float
    r"""$h''$, on the first `curvature_prompts` of the prompts."""
    curvature_se: float
    curvature_prompts: int
    eta_star: float
    r"""$2|h'|/|h''|$: the linear prediction is valid well below this rate."""
    eta_star_low: float
    eta_star_high: float
    power: float
    r"""Slope of $\log|\Delta h|$ on $\log\eta$ where the change is linear."""
    power_se: float
    power_r2: float
    power_from: float
    """Smallest learning rate of that fit."""
    power_to: float  #: Largest learning rate of that fit.
    smallest_eta: float
    """Lower end of the range in which prediction and change differ by at most 5%."""
    halved_eta: float
    """Learning rate that halves the effective sample; NaN if none of the sweep does."""
    floor: float
    """Rounding error: change between two passes with equal parameters, or its error;
    NaN in mixed precision without curvature, which is then the second pass."""


@dataclass(frozen=True, kw_only=True)
class Variance(OfUpdate):
    r"""Variance of `value`, split by the batch that causes it: evaluation or update."""

    precision: str
    evaluation_prompts: int
    update_prompts: int
    value: float
    r"""$\bar X\cdot\bar Y$: the part of $h'$ due to this batch's gradient."""
    given_update: float  #: Variance over evaluation batches, at this update.
    evaluation: float
    """$V_X$: due to the evaluation batch."""
    update_batch: float
    """$V_Y$: due to the update batch."""
    both: float
    """$V_{XY}$: due to both together. The three add up to the variance."""
    one_batch: float
    """Slope of entropy per sequence from the update batch alone, by a U-statistic."""
    one_batch_hoeffding_se: float
    """From the unbiased estimate of its variance; NaN if that is negative."""
    one_batch_jackknife_se: float  #: From the jackknife over prompts.


@dataclass(frozen=True, kw_only=True)
class Needed(OfUpdate):
    """How many times more prompts sequence weights need than an estimator does."""

    precision: str
    weighting: str
    baseline: str
    per: str
    quantity: str
    r"""`change`, $\Delta h$ at `eta`, or `slope`, $h'$."""
    eta: float  #: Learning rate of `change`; NaN for `slope`.
    prompt_variance: float
    """Variance of one prompt: the square of the standard error times the prompts."""
    factor: float
    """Prompts of sequence weights over those of this one, for equal standard errors."""
    factor_low: float
    factor_high: float


@dataclass(frozen=True, kw_only=True)
class ErrorStudy(OfUpdate):
    r"""Relative error $(\delta h_1 - \Delta h)/|\Delta h|$ over synthetic batches."""

    precision: str
    pair: str
    """`matched` with its weighting, or `original`: sequence weights for the change and
    a position baseline for the prediction."""
    eta: float
    batches: int  #: Number of synthetic batches.
    size: int
    """Prompts of a batch, drawn with replacement."""
    mean: float
    deviation: float
    quantiles: tuple[float, ...]
    """Quantiles of the relative error at 0, 1, … 100 per cent."""


@dataclass(frozen=True, kw_only=True)
class Convergence(OfCheckpoint):
    """How an estimate of the entropy itself converges with the number of prompts."""

    precision: str
    estimator: str
    """`whole vocabulary`, or `sampled token`: the mean of -log p."""
    prompts: int
    mean: float
    deviation: float
    error_50: float
    """Median of the absolute difference from the entropy of the whole batch."""
    error_80: float  #: Its 80% quantile.
    error_95: float  #: Its 95% quantile.


@dataclass(frozen=True, kw_only=True)
class Sample(OfCheckpoint):
    """A response as text. Untrusted: may hold control characters and markup."""

    prompt: int  #: Index of the problem.
    prompt_text: Text
    response_text: Text
    tokens: int
    entropy: float
    """Mean over its tokens, in nats."""
    surprisal: float
    """Mean of -log p over its tokens, in nats."""
    reward: float
    """NaN if not scored."""


@dataclass(frozen=True)
class MeasureTables:
    """All tables of a measurement."""

    changes: list[Change] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    variances: list[Variance] = field(default_factory=list)
    needed: list[Needed] = field(default_factory=list)
    errors: list[ErrorStudy] = field(default_factory=list)
    convergence: list[Convergence] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
    expected: list[ExpectedChange] = field(default_factory=list)
    batches: list[BatchChange] = field(default_factory=list)
