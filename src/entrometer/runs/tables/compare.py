"""Result tables of `entrometer compare`.

Changes are at the learning rate of the row: nats per token for `entropy`, reward per
response for `reward`. `x`, `x_se`, `x_low` and `x_high` are an estimate, its standard
error and the ends of its 95% interval; NaN means not measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from entrometer.runs.tables.next_batches import (
    CHEAP,
    BatchChange,
    ExpectedChange,
    GainAgreement,
    LaterChange,
)
from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfUpdate

AS_TRAINED = "as trained"
"""Reference of a comparison on an update whose training recorded its loss."""


class Told(NamedTuple):
    """A change, or a difference from plain, and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Outcome(OfUpdate):
    """What one step under an intervention does to entropy or to expected reward."""

    minibatch: str
    """`j/J`: the j-th of J parts of the update, after plain steps on earlier parts."""
    step: int
    """Optimizer steps before: the checkpoint's, and one per earlier minibatch."""
    eta: float  #: Learning rate.
    share: float
    """Share of the minibatch in the step; the rest is momentum of earlier batches. An
    intervention at every step would come to `1 / share` times its gain per step if
    nothing else changed, which is no forecast of a training."""
    name: str
    """Name of the intervention."""
    settings: str
    """The intervention with settings that are not the default: `name:setting=value`."""
    strength: float
    """Value of the setting that is swept; NaN for an intervention without one."""
    tried: bool
    """Whether this is the published or requested strength: others take no step."""
    changed: float
    """Share of the counted tokens whose gradient differs from plain."""
    objective: str
    """`entropy` or `reward`."""
    predicted: float
    """Change by influence at plain's preconditioner, on the held-out prompts."""
    predicted_se: float
    predicted_low: float
    predicted_high: float
    gain: float
    """`predicted` minus that of plain."""
    gain_se: float
    gain_low: float
    gain_high: float
    elsewhere: float
    """`predicted` on the prompts that are not held out, independent of `observed`."""
    elsewhere_se: float
    elsewhere_low: float
    elsewhere_high: float
    reformed: float
    """Slope along the step that AdamW makes, times `eta`; NaN if it is not taken."""
    observed: float
    """Change measured after that step, on the held-out prompts; NaN if not taken."""
    observed_se: float
    observed_low: float
    observed_high: float
    observed_gain: float
    """`observed` minus that of plain, paired by prompt."""
    observed_gain_se: float
    observed_gain_low: float
    observed_gain_high: float
    reference: str = "dr-grpo"
    """Plain, the loss that interventions change and gains are against: `dr-grpo`, or
    `as trained` for the loss that the training recorded."""
    below: float
    """Predicted reward by which it is below the frontier at its change of entropy; NaN
    in rows of `entropy`, and where the frontier does not reach as far."""
    below_se: float
    below_low: float
    below_high: float

    @property
    def chosen(self) -> bool:
        """Whether it is `frontier`, which chose tokens by the prompts not held out."""
        return self.name == "frontier"

    @property
    def taken(self) -> bool:
        """Whether its step was computed and taken, even if the effect is not finite."""
        return not math.isnan(self.reformed)

    @property
    def finite(self) -> bool:
        """Whether `told_change`, `told_gain` and their intervals are finite."""
        return all(map(math.isfinite, (*self.told_change, *self.told_gain)))

    @property
    def told_change(self) -> Told:
        """The observed change; the predicted one if the step was not taken."""
        if not self.taken:
            return Told(self.predicted, self.predicted_low, self.predicted_high)
        return Told(self.observed, self.observed_low, self.observed_high)

    @property
    def told_gain(self) -> Told:
        """The observed gain over plain; the predicted one if the step was not taken."""
        if not self.taken:
            return Told(self.gain, self.gain_low, self.gain_high)
        return Told(self.observed_gain, self.observed_gain_low, self.observed_gain_high)


@dataclass(frozen=True, kw_only=True)
class FrontierPoint(OfUpdate):
    """The best choice of tokens at a price of entropy, and the changes it makes."""

    minibatch: str  #: `j/J`: the j-th of J parts of the update.
    eta: float  #: Learning rate.
    price: float  #: Weight of entropy against reward in the choice; 0 ignores entropy.
    kept: float
    """Share that it keeps of the tokens whose weight in the loss is not 0."""
    entropy: float
    """Change of entropy, predicted on the held-out evaluation prompts."""
    entropy_se: float
    entropy_low: float
    entropy_high: float
    reward: float
    """Change of expected reward, predicted on the same prompts."""
    reward_se: float
    reward_low: float
    reward_high: float
    fitted_entropy: float
    """`entropy` on the prompts that chose the tokens, where it looks too good."""
    fitted_reward: float  #: `reward` on those, where it looks too good.


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """How to set an intervention in TRL and in verl."""

    name: str
    settings: str  #: The intervention, as `name:setting=value`.
    source: str  #: Publication.
    trl: str
    """Arguments of TRL's `GRPOConfig`; empty if TRL lacks the intervention."""
    verl: str
    """Overrides of verl's config; empty if verl lacks the intervention."""
    differs: str
    """How the loss of TRL or verl with these settings differs from the one compared."""


@dataclass(frozen=True)
class CompareTables:
    """All tables of a comparison."""

    outcomes: list[Outcome] = field(default_factory=list)
    frontier: list[FrontierPoint] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
    expected: list[ExpectedChange] = field(default_factory=list)
    batches: list[BatchChange] = field(default_factory=list)
    agreement: list[GainAgreement] = field(default_factory=list)
    later: list[LaterChange] = field(default_factory=list)


class Pair(NamedTuple):
    """Effects of an intervention on entropy and on reward."""

    entropy: Outcome
    reward: Outcome

    @property
    def scored(self) -> bool:
        """Whether rewards are known at all."""
        return not math.isnan(self.reward.predicted)

    @property
    def finite(self) -> bool:
        """Whether the effects are finite, as far as they are known."""
        return self.entropy.finite and (self.reward.finite or not self.scored)


def chosen_remedy(plain: Pair, others: Sequence[Pair]) -> Pair | None:
    """Return the remedy that keeps most entropy at a low cost; None if none keeps more.

    Prompts choose that do not measure the effect.
    """

    # `elsewhere` is on the prompts that choose: the largest of several estimates on the
    # held-out half would be too large there.
    def gain(pair: Pair, objective: str) -> float:
        here, base = getattr(pair, objective), getattr(plain, objective)
        return float(here.elsewhere - base.elsewhere)

    keeping = [p for p in others if gain(p, "entropy") > 0]
    spare = CHEAP * abs(plain.reward.elsewhere)
    # Comparisons with NaN are false: without rewards no remedy counts as cheap.
    cheap = [p for p in keeping if gain(p, "reward") >= -spare]
    # If every remedy is costly, the one that keeps most is named with its cost.
    return max(cheap or keeping, key=lambda p: gain(p, "entropy"), default=None)
