r"""Result tables of `entrometer kernel`.

$K(t,t') = \nabla S(t)^\top P\,\nabla S(t')$ between log-probs $S$ of responses, with
the preconditioner $P = 1$ (metric `sgd`) or Adam's (`adam`). Intervals are 95%
intervals, clustered by prompt; NaN means not measured.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfCheckpoint, OfUpdate


@dataclass(frozen=True, kw_only=True)
class Block(OfCheckpoint):
    """Mean and size of the kernel's elements in one block: all pairs of one kind."""

    metric: str  #: `sgd` or `adam`.
    block: str
    """`self`, `prompt` (another response to the same prompt) or `other` (prompts)."""
    quantity: str
    r"""`kernel` for $K$, `cosine` for $K/\sqrt{K_{tt}K_{t't'}}$."""
    mean: float
    mean_se: float
    mean_low: float
    mean_high: float
    size: float
    """Root mean square of the elements."""
    pairs: int  #: Number of unordered pairs.
    responses: int
    prompts: int


@dataclass(frozen=True, kw_only=True)
class Eigenvalue(OfCheckpoint):
    """An eigenvalue of the kernel, the largest first."""

    metric: str
    method: str
    """`dense`, `sketch` (of a sketched kernel) or `matrix-free` (Lanczos)."""
    rank: int
    """From 1, the largest."""
    value: float
    wishart: float
    """`value` if gradients were unrelated (Marchenko-Pastur law); `dense` only."""


@dataclass(frozen=True, kw_only=True)
class Growth(OfCheckpoint):
    r"""Power $p$ by which elements grow with length: $|K|\propto(TT')^{p/2}$."""

    metric: str
    block: str
    power: float
    power_se: float
    pairs: int  #: Number of unordered pairs in the fit.


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
    r"""Predicted and measured change $\delta S$ of one held-out response's log-prob."""

    eta: float  #: Learning rate.
    response: int
    length: int  #: In tokens.
    predicted: float
    """From the whole step: this batch through K, momentum and decay by their slope."""
    own: float
    """From this batch alone, through K."""
    observed: float  #: Measured after the step.


@dataclass(frozen=True, kw_only=True)
class SketchError(OfCheckpoint):
    """Error of a sketched kernel, by its number of buckets."""

    metric: str
    m: int
    """Number of buckets of the sketch."""
    error: float
    r"""RMS of an element's error over $|\phi||\phi'|$; NaN without the exact kernel."""
    expected: float
    r"""$\sqrt{(1+\cos^2)/m}$ on average, the error expected in theory."""


@dataclass(frozen=True, kw_only=True)
class Whole(OfCheckpoint):
    """Summary statistics of the kernel of a checkpoint."""

    metric: str  #: `sgd` or `adam`.
    step: int  #: Optimizer steps of the checkpoint.
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
    """Seconds that gradients and their products took."""


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
