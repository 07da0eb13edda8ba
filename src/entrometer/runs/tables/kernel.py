r"""Result tables of `entrometer kernel`.

$K(t,t') = \nabla S(t)^\top P\,\nabla S(t')$ with $P = 1$ (metric `sgd`) or Adam's
(metric `adam`). Intervals are 95% intervals, clustered by prompt; NaN means not
measured.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfCheckpoint, OfUpdate


@dataclass(frozen=True, kw_only=True)
class Block(OfCheckpoint):
    """Mean of one block of the kernel: all pairs of one kind."""

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
    """Root mean square."""
    pairs: int
    responses: int
    prompts: int


@dataclass(frozen=True, kw_only=True)
class Eigenvalue(OfCheckpoint):
    """An eigenvalue of the kernel, the largest first."""

    metric: str
    method: str
    """`dense`, `matrix-free` or `sketch`."""
    rank: int
    """From 1."""
    value: float
    wishart: float
    """Quantile of the Marchenko-Pastur law of this trace and spread; `dense` only."""


@dataclass(frozen=True, kw_only=True)
class Growth(OfCheckpoint):
    r"""How elements grow with length: $\log|K|$ on $\log T$ (or $\log\sqrt{TT'}$)."""

    metric: str
    block: str
    power: float
    power_se: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Element(OfCheckpoint):
    """An element of the kernel, from a random sample of each block."""

    metric: str
    block: str
    length: float
    """Geometric mean of the two lengths, in tokens."""
    value: float


@dataclass(frozen=True, kw_only=True)
class Prediction(OfUpdate):
    r"""Predicted and measured change $\delta S$ of one held-out response."""

    eta: float
    response: int
    length: int
    predicted: float
    """From the whole step: this batch through K, momentum and decay by their slope."""
    own: float
    """From this batch alone, through K."""
    observed: float


@dataclass(frozen=True, kw_only=True)
class SketchError(OfCheckpoint):
    """Error of a sketched kernel, by its size."""

    metric: str
    m: int
    """Buckets."""
    error: float
    r"""Root mean square of the error of an element over $|\phi||\phi'|$."""
    expected: float
    r"""$\sqrt{(1+\cos^2)/m}$ on average, the error expected in theory."""


@dataclass(frozen=True, kw_only=True)
class Whole(OfCheckpoint):
    """Summary statistics of the kernel of a checkpoint."""

    metric: str
    step: int
    responses: int
    prompts: int
    parameters: int
    """Number of trained parameters."""
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
    """Time that rows and products took."""


@dataclass(frozen=True)
class KernelTables:
    """All tables of a measurement of the kernel."""

    blocks: list[Block] = field(default_factory=list)
    eigenvalues: list[Eigenvalue] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    sketches: list[SketchError] = field(default_factory=list)
    whole: list[Whole] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
