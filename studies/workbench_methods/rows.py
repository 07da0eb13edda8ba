"""Rows of the study's tables; needs no torch.

Intervals and `_se` of a row are over evaluation prompts given its update, unless the
field says otherwise; the tables that are printed are over updates as well.
"""

from dataclasses import dataclass, field

EDGES = tuple(round(i / 20, 2) for i in range(-20, 21))
"""Ends of the histogram's bars, in relative error."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """An estimator of the change per sequence on the enumerated policy."""

    step: str
    estimator: str
    responses: int
    truth: float
    bias: float  #: Mean over the simulations less the truth.
    bias_se: float  #: Over simulations.
    deviation: float  #: Standard deviation over simulations.
    exact: float
    """Standard deviation by enumeration: exact where the estimator is a mean, and to
    first order in 1/n where it is a ratio."""
    effective: float
    """Effective share of a large sample, by enumeration."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """An estimator of the change per sequence on the workbench, for one update."""

    checkpoint: str
    update: str
    estimator: str
    change: float  #: On all prompts, at the training's learning rate.
    change_se: float  #: Over prompts, given the update.
    factor: float
    """Times as many prompts as plain sequence weights need, on a part of the prompts
    that no other update is judged on."""
    bias: float
    """Mean of this estimator less plain sequence weights, which have no bias, over
    disjoint small batches of that part."""
    effective: float  #: Effective share of the responses.


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted and observed change of one update at the training's learning rate."""

    checkpoint: str
    update: str
    prompts: int  #: Responses of the evaluation batch, one per drawn prompt.
    observed: float
    observed_se: float  #: Over prompts, given the update, as are the others.
    predicted: float
    predicted_se: float
    error: float  #: Predicted less observed on the same prompts.
    error_se: float
    apart: float
    """Predicted on one half of these prompts less observed on the other half."""
    apart_se: float


@dataclass(frozen=True, kw_only=True)
class RelativeError:
    r"""$(\delta h_1 - \Delta h)/|\Delta h|$ over synthetic batches, for one update."""

    checkpoint: str
    update: str
    pair: str
    """`matched, per decision`, or `original`: sequence weights for the change, and a
    moving average per position subtracted in the prediction."""
    multiple: float  #: Learning rate over the training's.
    size: int  #: Prompts of a synthetic batch.
    batches: int
    mean: float
    deviation: float
    excess_kurtosis: float
    quantiles: tuple[float, ...]  #: At 0, 1, … 100 per cent.
    reversed: float
    """Share of batches whose observed change has the other sign than the pool's."""
    below: float  #: Share below the histogram.
    shares: tuple[float, ...]  #: Share in each bar between `EDGES`.
    above: float  #: Share above the histogram.


@dataclass(frozen=True, kw_only=True)
class Power:
    """Slope of log |Δh| against the log of the learning rate, for one update."""

    checkpoint: str
    update: str
    lowest: float  #: Smallest learning rate of the fit, over the training's.
    highest: float  #: Largest learning rate of the fit, over the training's.
    whole: float  #: On all prompts.
    own: float  #: On the prompts that no other update is judged on.


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """Cosines of pairs whose responses begin with so many equal tokens."""

    checkpoint: str
    metric: str
    block: str  #: `prompt` for two responses to one prompt, `other` for other pairs.
    shared: int  #: Equal leading tokens; -1 if the responses are equal.
    pairs: int
    mean: float  #: Mean cosine; intervals are jackknives over prompts.
    mean_low: float
    mean_high: float
    size: float  #: Mean of the cosine's absolute value.
    size_low: float
    size_high: float


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The kernel between a response and itself with one digit replaced."""

    checkpoint: str
    metric: str
    kind: str  #: `likely`: drawn from the policy; `uniform`: any other digit.
    prompt: int
    position: int  #: Of the replaced token, from 1.
    log_prob: float  #: Of the new token, under the policy.
    ratio: float  #: K(response, edited) / K(response, response).
    cosine: float


@dataclass(frozen=True, kw_only=True)
class Feature:
    """How many of the most parallel pairs have a feature, and how many of all pairs."""

    checkpoint: str
    among: str  #: Pairs of `different responses`, or of `different prompts`.
    feature: str
    pairs: int  #: Most parallel pairs.
    top: float  #: Share of these with the feature; jackknife over prompts.
    top_low: float
    top_high: float
    every: float  #: Share of all pairs with the feature.


@dataclass(frozen=True, kw_only=True)
class Example:
    """A pair of responses to different prompts, one of the most parallel ones."""

    checkpoint: str
    cosine: float
    prompt: str
    response: str
    right: bool
    other_prompt: str
    other_response: str
    other_right: bool


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A kernel of some parameters beside that of all of them."""

    checkpoint: str
    kernel: str
    parameters: int
    draws: int  #: Adapters that the kernel was averaged over; 1 if nothing is drawn.
    quantity: str
    """`correlation, prompt` or `correlation, other`, of cosines over the pairs of a
    block; `effective rank`, over that of all parameters."""
    value: float
    low: float  #: 95% interval over prompts, and draws if there are several.
    high: float


@dataclass(frozen=True, kw_only=True)
class Share:
    """Part of a group of parameters in the kernel of all of them, with P = 1."""

    checkpoint: str
    group: str
    parameters: int
    trace: float  #: Share of the kernel's trace.


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Variance of the gradient of a batch, predicted and observed."""

    checkpoint: str
    gradient: str
    """`as it is`, or `clipped` to the training's norm, which is not a mean."""
    responses: int
    predicted: float
    r"""$\mathrm{tr}\,\Sigma/B$ from batches of 8 and 32 responses."""
    predicted_se: float
    observed: float  #: Mean square distance of independent batches from their mean.
    observed_se: float  #: Jackknife over units of 256 responses.
    square: float
    r"""Mean of $|g_B|^2$, which holds $|G|^2$ as well."""
    clipped: float  #: Share of the batches whose gradient is longer than the norm.


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Gradient noise scale, in prompts of 8 responses, from one sample."""

    checkpoint: str
    sample: str
    value: float
    low: float
    high: float
    gradient: float
    r"""$|G|^2$, the square of the expected gradient; unbiased."""
    gradient_se: float
    trace: float
    r"""$\mathrm{tr}\,\Sigma$ of one prompt."""
    trace_se: float


@dataclass(frozen=True)
class MethodTables:
    """All tables of the study."""

    simulated: list[Simulated] = field(default_factory=list)
    weighed: list[Weighed] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    errors: list[RelativeError] = field(default_factory=list)
    powers: list[Power] = field(default_factory=list)
    prefixes: list[Prefix] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    groups: list[Share] = field(default_factory=list)
    noise: list[Noise] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)
