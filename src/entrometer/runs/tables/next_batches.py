"""Result tables on the training's next update batches.

Changes are at the learning rate of the row: nats per token for `entropy`, reward per
response for `reward`. `x`, `x_se`, `x_low` and `x_high` are an estimate, its standard
error and the ends of its 95% interval; NaN means not known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from entrometer.runs.tables.subjects import OfCheckpoint

ONE_STEP = 1  #: Horizon of a single step.
KEPT_UP = 32  #: Steps that a loss is kept up for in the gain that remedies rank by.


CHEAP = 0.1
"""Largest cost of a remedy in reward, relative to what plain's step does to it, that is
hardly any."""


@dataclass(frozen=True, kw_only=True)
class BatchChange(OfCheckpoint):
    """What AdamW's step of one update batch does, to first order."""

    batch: str
    """`recorded` for the next one of the training, `step-N` for a later one reweighted
    to this policy, or `sampled-N`."""
    loss: str  #: The loss, as `name:setting=value`.
    objective: str  #: `entropy` or `reward`.
    eta: float  #: Learning rate.
    groups: int  #: Prompt groups of the batch.
    groups_with_signal: int
    effective_share: float
    """Effective share of the responses, 1 if this policy sampled them."""
    change: float
    """Change by this batch's step; the interval is over evaluation prompts alone."""
    change_se: float
    change_low: float
    change_high: float
    momentum: float
    """Part of `change` that AdamW's momentum makes."""


@dataclass(frozen=True, kw_only=True)
class ExpectedChange(OfCheckpoint):
    """Expected change over the training's next batches, and that of the next one."""

    loss: str
    against: str
    """Loss whose change is subtracted, batch by batch; empty for the change itself."""
    objective: str  #: `entropy` or `reward`.
    eta: float  #: Learning rate.
    horizon: int
    """1 for the next step. H for the mean change per step over the next H steps with
    the loss kept up, at the present parameters."""
    batches: int  #: Update batches that it is estimated from.
    batches_with_signal: int
    prompts: int  #: Evaluation prompts.
    expected: float
    """Expected change; the interval is over batches and evaluation prompts."""
    expected_se: float
    expected_low: float
    expected_high: float
    next_low: float
    next_high: float
    """Ends of the 95% interval for the next batch's change; NaN for longer horizons."""
    p_value: float  #: Two-sided, of an expected change of 0.
    passes: bool
    """Whether it is distinguishable from 0 among all gains of the checkpoint, at a
    false discovery rate of 5%."""
    batch_share: float
    """Share of the variance of `expected` that is due to the few batches."""
    per_nat: float = math.nan
    """For `reward`: expected change in reward per nat per token of the expected change
    in entropy, by one step. Negative if entropy is spent on reward; NaN unless the
    change in entropy is distinguishable from 0."""
    per_nat_low: float = math.nan
    per_nat_high: float = math.nan
    momentum: float = math.nan
    """Part of the expected change that AdamW's momentum makes, in the next step; NaN
    for gains, which it has no part in, and for longer horizons."""
    momentum_se: float = math.nan
    momentum_low: float = math.nan
    momentum_high: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there is an interval: the batches have signal, and rewards exist."""
        return math.isfinite(self.expected_low)

    @property
    def sign_probability(self) -> float:
        """Probability that the expected change has the sign of its estimate."""
        return 1 - self.p_value / 2

    @property
    def times_the_data(self) -> float:
        """How many times as many batches and prompts would distinguish it from 0."""
        if not self.known or not self.expected:
            return math.inf
        reach = (self.expected_high - self.expected_low) / 2
        return max(1.0, (reach / abs(self.expected)) ** 2)


@dataclass(frozen=True, kw_only=True)
class LaterChange(ExpectedChange):
    """Expected change by the step of a later minibatch, over several updates.

    Before it, each update has taken plain's steps on its own earlier minibatches, from
    the same checkpoint.
    """

    minibatch: str
    """`j/J`: the j-th step over J parts; above J in further epochs."""


@dataclass(frozen=True, kw_only=True)
class GainAgreement(OfCheckpoint):
    """How gains predicted by influence agree with those of other batches' own steps.

    Predicted on the first batch and on one half of the evaluation prompts; observed to
    first order on the other batches and the other half. Intervals are over losses, each
    with all its strengths.
    """

    objective: str  #: `entropy` or `reward`.
    losses: int  #: Losses and strengths that differ from plain and from one another.
    rank: float  #: Spearman's correlation of the ranks.
    rank_low: float
    rank_high: float
    slope: float  #: Slope of the line through 0 from predicted to observed gains.
    slope_low: float
    slope_high: float
    r2: float
    """1 for exact predictions, 0 for predicting no gain for every loss."""
    r2_low: float
    r2_high: float


class Advice(NamedTuple):
    """What the training's next batches say about a checkpoint and its remedies."""

    plain: ExpectedChange
    """Change of entropy by one step of plain."""
    plain_rate: ExpectedChange | None
    """Change of entropy per step over the next steps of plain."""
    tested: list[ExpectedChange]
    """Gains of entropy by remedies that are kept up; those that may differ from 0."""
    best: ExpectedChange | None
    """The largest gain that is distinguishable from 0; None if there is none. One that
    is not cheap only if none is."""
    dearer: ExpectedChange | None
    """A larger gain that is not cheap; None if `best` is the largest."""
    closest: ExpectedChange | None
    """The gain above 0 that is nearest to being distinguishable."""
    rows: Sequence[ExpectedChange]

    def one_step(self, loss: str, objective: str) -> ExpectedChange | None:
        """Return the gain of a loss in the next step; of plain, its change."""
        found = (
            row
            for row in self.rows
            if (row.loss, row.objective, row.horizon) == (loss, objective, ONE_STEP)
            and bool(row.against) == (loss != self.plain.loss)
        )
        return next(found, None)

    def cheap(self, loss: str) -> bool:
        """Return whether the next step loses hardly any reward, as far as is known.

        At most a tenth of what plain's step gains or loses.
        """
        price = self.one_step(loss, "reward")
        plain = self.one_step(self.plain.loss, "reward")
        if price is None or plain is None or math.isnan(price.expected):
            return True
        return price.expected >= -CHEAP * abs(plain.expected)

    def ranked(self) -> list[ExpectedChange]:
        """Return the gains that are distinguishable from 0, the advised ones first."""
        passing = [row for row in self.tested if row.passes and row.expected > 0]
        # Of losses that equal one another here, the one with the shorter name.
        return sorted(
            passing,
            key=lambda r: (
                not self.cheap(r.loss),
                -float(f"{r.expected:.9g}"),
                len(r.loss),
            ),
        )


def advice(rows: Sequence[ExpectedChange], checkpoint: str) -> Advice | None:
    """Return what the rows of a checkpoint say; None if it has none."""
    rows = [row for row in rows if row.checkpoint == checkpoint]
    entropy = [row for row in rows if row.objective == "entropy"]
    plain = [row for row in entropy if not row.against]
    if not plain:
        return None
    tested = [
        row for row in entropy if row.against and row.horizon == KEPT_UP and row.known
    ]
    more = [row for row in tested if row.expected > 0]
    # Plain is the first loss.
    rates = [r for r in plain if (r.loss, r.horizon) == (plain[0].loss, KEPT_UP)]
    found = Advice(
        plain=plain[0],
        plain_rate=rates[0] if rates else None,
        tested=tested,
        best=None,
        dearer=None,
        closest=min(more, key=lambda r: r.p_value, default=None),
        rows=rows,
    )
    if not (ranked := found.ranked()):
        return found
    best, largest = ranked[0], max(ranked, key=lambda r: r.expected)
    dearer = largest if largest.expected > best.expected else None
    return found._replace(best=best, dearer=dearer)
