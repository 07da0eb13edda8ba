r"""What a measurement of the Fisher kernel leaves behind: a table for each question.

$K(t,t') = \nabla S(t)^\top P\,\nabla S(t')$ with $P = 1$ (metric `sgd`) or Adam's
(metric `adam`). Intervals are 95% and clustered by prompt; NaN is what was not
measured.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.signal import UpdateSignal


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of the kernel: pairs that are alike."""

    checkpoint: str
    metric: str
    block: str
    """`self`, `prompt` (another response to the same prompt) or `other` (prompts)."""
    quantity: str
    r"""`kernel` for $K$, `cosine` for $K/\sqrt{K_{tt}K_{t't'}}$."""
    mean: float
    mean_se: float
    mean_low: float
    mean_high: float
    size: float
    """Root of the mean square."""
    pairs: int
    responses: int
    prompts: int


@dataclass(frozen=True, kw_only=True)
class Eigenvalue:
    """An eigenvalue of the kernel, the largest first."""

    checkpoint: str
    metric: str
    method: str
    """`dense`, `matrix-free` or `sketch`."""
    rank: int
    """From 1."""
    value: float
    wishart: float
    r"""Quantile of the Marchenko-Pastur law that fits trace and spread; `dense`
    only."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    r"""How elements grow with length: $\log|K|$ on $\log T$ (or $\log\sqrt{TT'}$)."""

    checkpoint: str
    metric: str
    block: str
    power: float
    power_se: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element of the kernel, of a sample of pairs that keeps every block."""

    checkpoint: str
    metric: str
    block: str
    length: float
    """Geometric mean of the two lengths, in tokens."""
    value: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    r"""A held-out response: $\eta\sum K\alpha$ against the measured $\delta S$."""

    checkpoint: str
    update: str
    eta: float
    response: int
    length: int
    predicted: float
    """By the whole step: this batch through K, momentum and decay by their slope."""
    own: float
    """By this batch alone, through K."""
    observed: float


@dataclass(frozen=True, kw_only=True)
class SketchError:
    """Error of a sketched kernel, by its size."""

    checkpoint: str
    metric: str
    m: int
    """Buckets."""
    error: float
    r"""Root mean square of the error of an element over $|\phi||\phi'|$."""
    expected: float
    r"""$\sqrt{(1+\cos^2)/m}$ on average: what theory says."""


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The kernel of a checkpoint in a few numbers."""

    checkpoint: str
    metric: str
    step: int
    responses: int
    prompts: int
    parameters: int
    """That are trained."""
    trace: float
    effective_rank: float
    r"""$(\sum\lambda)^2/\sum\lambda^2$."""
    off_diagonal: float
    r"""$\sum_{i\ne j}K_{ij}^2/\sum K_{ij}^2$: 0 for a diagonal kernel."""
    noise_scale: float
    r"""Prompts at which noise and signal of the gradient are equal, from K."""
    noise_scale_low: float
    noise_scale_high: float
    seconds: float
    """That the rows and products took."""


@dataclass(frozen=True)
class KernelTables:
    """All tables."""

    blocks: list[Block] = field(default_factory=list)
    eigenvalues: list[Eigenvalue] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    sketches: list[SketchError] = field(default_factory=list)
    whole: list[Whole] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
