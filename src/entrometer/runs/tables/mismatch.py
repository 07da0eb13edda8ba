r"""Result tables of `entrometer mismatch`.

The ratio of a token is $m = e^{S_\text{old} - S_e}$, with $S_\text{old}$ the trainer's
log-prob when the response was sampled and $S_e$ that of the engine that sampled it.
Effects are of weighing tokens by $m$ instead of 1, at the learning rate of the row's
update, to first order: nats per token for `entropy`, reward per response for `reward`.
`x`, `x_se`, `x_low` and `x_high` are an estimate, its standard error and the ends of
its 95% interval.
"""

from dataclasses import dataclass, field

from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.subjects import OfUpdate
from entrometer.runs.tables.texts import Text, TokenId

BY_TOKEN, BY_RESPONSE = "tis:cap=inf", "mis:most=inf"
"""Losses that weigh every token by its own ratio, or by that of its response."""


@dataclass(frozen=True, kw_only=True)
class Distance(OfUpdate):
    """How far engine and trainer are apart on a group of tokens, and what that does."""

    by: str
    """`all`, `kind`, `position`, `probability` (of the trainer) or `advantage`."""
    name: str  #: Name of the group.
    tokens: int
    size: float
    r"""Mean of $|\log m|$, in nats."""
    size_99: float
    r"""99th percentile of $|\log m|$."""
    largest: float
    r"""Largest $|\log m|$."""
    divergence: float
    r"""Mean of $m - 1 - \log m$: divergence of the engine from the trainer, nats."""
    entropy: float
    entropy_se: float
    entropy_low: float
    entropy_high: float
    reward: float
    reward_se: float
    reward_low: float
    reward_high: float


@dataclass(frozen=True, kw_only=True)
class SamplingEngine(OfUpdate):
    """What sampled an update, and what its responses are worth."""

    sampled_by: str
    """`recorded` by the training, or the sampler: its name, version and precision."""
    precision: str
    """Precision of the trainer's policy in this measurement."""
    responses: int
    effective: float
    r"""Effective number of responses, $(\sum M)^2/\sum M^2$ with $M = \prod_k m_k$."""
    eta: float  #: Learning rate of the effects.


@dataclass(frozen=True, kw_only=True)
class Token(OfUpdate):
    """A token of an update; rows are in the order of responses."""

    response: int  #: Number of its response in the batch.
    position: int  #: Place in the response, from 0.
    token: TokenId  #: Its id.
    text: Text  #: The token decoded alone.
    kind: str
    """Class of the token: `digit`, `word`, `space`, `sign`, `end` or `other`."""
    advantage: float
    S_old: float  #: Log-prob by the trainer, in nats.
    S_engine: float  #: Log-prob by the engine.
    H: float  #: Entropy of the trainer's policy before the token, in nats.
    entropy: float
    entropy_se: float
    reward: float
    reward_se: float


@dataclass(frozen=True)
class MismatchTables(CompareTables):
    """Tables of a measured mismatch, and of the comparison of its corrections."""

    distances: list[Distance] = field(default_factory=list)
    engines: list[SamplingEngine] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
