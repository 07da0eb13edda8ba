"""Result tables of `entrometer influence`.

Every influence is per unit learning rate: times the learning rate it is the change, in
nats per token for `entropy` and in reward per response for `reward`, by a token's part
of the update. `x`, `x_se`, `x_low` and `x_high` are an estimate, its standard error
over folds of the evaluation batch, and the ends of its 95% interval; NaN means not
measured.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from entrometer.runs.tables.next_batches import BatchChange, ExpectedChange
from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfUpdate
from entrometer.runs.tables.texts import Text, TokenId


@dataclass(frozen=True, kw_only=True)
class Token(OfUpdate):
    """A token of an update, with its influence; rows are in the order of responses.

    Tokens that the policy did not write, such as a tool's output, have no row.
    """

    response: int
    """Number of its response in the batch."""
    group: int
    """Number of the prompt that it answers, in the batch."""
    position: int
    """Place in the response, from 0, among the tokens that the policy wrote."""
    token: TokenId
    """Its id."""
    text: Text
    """The token decoded alone."""
    kind: str
    """Class of the token: `digit`, `word`, `space`, `sign`, `end` or `other`."""
    advantage: float
    alpha: float
    r"""$\alpha = -\partial L/\partial S$, the weight of its log-prob in the loss."""
    S: float
    """Its log-probability, in nats."""
    H: float
    """Entropy of the policy before the token, in nats."""
    entropy: float
    r"""$I_h$, influence on entropy."""
    entropy_se: float
    reward: float
    r"""$I_J$, influence on expected reward."""
    reward_se: float
    context: Text = ""
    """Text just before it that the policy did not write; empty for most tokens."""


@dataclass(frozen=True, kw_only=True)
class Response(OfUpdate):
    """A response of an update, as text."""

    response: int  #: Its number in the batch.
    group: int  #: Number of its prompt in the batch.
    prompt_text: Text
    text: Text
    reward: float
    """Reward of the response."""


@dataclass(frozen=True, kw_only=True)
class Balance(OfUpdate):
    """Slope of entropy or reward along one part of an update, or along all of it."""

    precision: str
    step: int
    """Optimizer steps of the checkpoint."""
    learning_rate: float
    """Learning rate of the training at the checkpoint."""
    objective: str
    """`entropy` or `reward`."""
    part: str
    """`batch`, `history` (momentum), `decay` or their sum `total`. `past-N` and `older`
    split `history`: the batch N steps ago at today's parameters, and the remainder,
    due to other batches and to parameters that moved since."""
    value: float
    value_se: float
    value_low: float
    value_high: float
    prompts: int
    """Prompts of the evaluation batch."""
    folds: int  #: Parts of the evaluation batch, split by prompt.
    responses: float = math.nan
    """Effective number of responses that the objective is measured on: fewer than their
    number if another policy sampled them."""


@dataclass(frozen=True, kw_only=True)
class Group(OfUpdate):
    """Influence summed over tokens that have something in common."""

    objective: str
    by: str
    """`response`, `prompt`, `advantage`, `position` or `kind`."""
    name: str
    """Which group: a number, `negative`, `zero` or `positive`, a range, or a class."""
    tokens: int
    value: float
    value_se: float
    value_low: float
    value_high: float


@dataclass(frozen=True, kw_only=True)
class Score(OfUpdate):
    """How well a cheap score ranks tokens or responses by influence on entropy."""

    level: str
    """`token` or `response`."""
    score: str
    """Name of the score."""
    target: str
    r"""`entropy` for $I_h$; `entropy alone` for large $|I_h|$ with small $|I_J|$."""
    rho: float
    """Spearman's rank correlation; low and high by resampling prompts."""
    rho_low: float
    rho_high: float
    found: float
    """Share of the top 1% of the target (by size) in the top 1% of the score."""
    count: int
    """Number of tokens or responses that are ranked."""


@dataclass(frozen=True, kw_only=True)
class Diagonal(OfUpdate):
    """The batch's slope of its own entropy, summed over one kind of pair of responses.

    The kinds add up to the slope; a diagonal kernel would keep only `self`.
    """

    block: str
    """`self`, `prompt` (others to the same prompt) or `other` (prompts)."""
    value: float
    r"""$\sum_{ij} X_i\cdot Y_j$ over the pairs: entropy's gradient times the update."""
    pairs: int  #: Number of ordered pairs.


@dataclass(frozen=True, kw_only=True)
class Removal(OfUpdate):
    """Effect of removing tokens from the loss, as predicted and as observed."""

    by: str
    """How they were chosen: `influence` (on other prompts), `cov` or `random`."""
    share: float
    """Share of the batch's tokens that is removed."""
    tokens: int  #: Number of removed tokens.
    eta: float  #: Learning rate.
    objective: str  #: `entropy` or `reward`.
    predicted: float
    r"""$-\eta\sum I$ over the removed, at fixed preconditioner and clipping."""
    predicted_se: float
    predicted_low: float
    predicted_high: float
    observed: float
    """Change by the update without the tokens minus `whole`, on the same samples."""
    observed_se: float
    observed_low: float
    observed_high: float
    whole: float
    """Change that the update with all tokens makes."""


@dataclass(frozen=True)
class InfluenceTables:
    """All tables of a measurement of influence."""

    tokens: list[Token] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    balance: list[Balance] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    diagonals: list[Diagonal] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
    expected: list[ExpectedChange] = field(default_factory=list)
    batches: list[BatchChange] = field(default_factory=list)


def top_share(tables: InfluenceTables, checkpoint: str, update: str) -> float:
    r"""Return the part of $\sum|I_h|$ due to 1% of the tokens that have a gradient.

    NaN if no token has one.
    """
    rows = [
        t for t in tables.tokens if (t.checkpoint, t.update) == (checkpoint, update)
    ]
    # Absolute values: influences of opposite sign would cancel in the total. A token
    # without weight in the loss has no influence at all, and is not one of the small.
    size = np.sort([abs(t.entropy) for t in rows if t.entropy])[::-1]
    if not size.size:
        return math.nan
    return float(size[: max(1, round(0.01 * size.size))].sum() / size.sum())
