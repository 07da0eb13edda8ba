"""Result tables of `entrometer compare`.

Changes are at the learning rate of the row: nats per token for `entropy`, reward per
response for `reward`. `x`, `x_se`, `x_low` and `x_high` are an estimate, its standard
error and the ends of its 95% interval; NaN means not measured.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from entrometer.runs.tables.signal import UpdateSignal
from entrometer.runs.tables.subjects import OfUpdate


class Told(NamedTuple):
    """A change, or a difference from plain Dr-GRPO, and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Outcome(OfUpdate):
    """What one step under an intervention does to entropy or to expected reward."""

    minibatch: str
    """`j/J`: the j-th of J parts, after plain steps on the others before it."""
    step: int
    """Optimizer steps of the checkpoint."""
    eta: float
    share: float
    """Share of the minibatch in the step; the rest is momentum of earlier ones. An
    intervention that is kept up comes to `1 / share` times its gain a step if nothing
    answers it, which is no forecast of a training."""
    name: str
    """Name of the intervention."""
    settings: str
    """Those that are not the default, as `name:setting=value`."""
    strength: float
    """Value of the setting that is swept; NaN for an intervention without."""
    tried: bool
    """Whether the step is taken at this strength: the published or requested one."""
    changed: float
    """Share of the counted tokens whose gradient differs from plain Dr-GRPO."""
    objective: str
    """`entropy` or `reward`."""
    predicted: float
    """By influence with plain's preconditioner, on the half of E that judges."""
    predicted_se: float
    predicted_low: float
    predicted_high: float
    gain: float
    """The same less that of plain Dr-GRPO."""
    gain_se: float
    gain_low: float
    gain_high: float
    elsewhere: float
    """The same as `predicted` on the other half, which is independent of `observed`."""
    elsewhere_se: float
    elsewhere_low: float
    elsewhere_high: float
    reformed: float
    """The slope along the step that AdamW forms anew, times the learning rate."""
    observed: float
    """The true change after that step, on the half that judges."""
    observed_se: float
    observed_low: float
    observed_high: float
    observed_gain: float
    """The same less that of plain Dr-GRPO, paired."""
    observed_gain_se: float
    observed_gain_low: float
    observed_gain_high: float
    below: float
    """Reward by which it stays below the frontier at its change of entropy, predicted;
    in the rows of `reward`, NaN where the frontier does not reach as far."""
    below_se: float
    below_low: float
    below_high: float

    @property
    def chosen(self) -> bool:
        """Whether its tokens were chosen by the half that does not judge."""
        return self.name == "frontier"

    @property
    def taken(self) -> bool:
        """Whether its step was formed anew and taken, be the result finite or not."""
        return not math.isnan(self.reformed)

    @property
    def finite(self) -> bool:
        """Whether its change and its gain over plain Dr-GRPO are numbers."""
        return all(map(math.isfinite, (*self.told_change, *self.told_gain)))

    @property
    def told_change(self) -> Told:
        """The observed change; the predicted one if the step was not taken."""
        if not self.taken:
            return Told(self.predicted, self.predicted_low, self.predicted_high)
        return Told(self.observed, self.observed_low, self.observed_high)

    @property
    def told_gain(self) -> Told:
        """The same less that of plain Dr-GRPO."""
        if not self.taken:
            return Told(self.gain, self.gain_low, self.gain_high)
        return Told(self.observed_gain, self.observed_gain_low, self.observed_gain_high)


@dataclass(frozen=True, kw_only=True)
class FrontierPoint(OfUpdate):
    """The best choice of tokens at a price of entropy."""

    minibatch: str
    eta: float
    price: float
    kept: float
    """Share of the tokens with a pull that it keeps."""
    entropy: float
    """Change of entropy that is predicted on the half that judges."""
    entropy_se: float
    entropy_low: float
    entropy_high: float
    reward: float
    """The same of reward."""
    reward_se: float
    reward_low: float
    reward_high: float
    fitted_entropy: float
    """What the half that chose the tokens says: too good."""
    fitted_reward: float


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Settings of an intervention in other libraries."""

    name: str
    settings: str
    source: str
    trl: str
    """Settings of TRL; empty where it has none."""
    verl: str
    """Settings of verl; empty where it has none."""
    differs: str
    """How these settings differ from what was compared."""


@dataclass(frozen=True)
class CompareTables:
    """All tables of a comparison."""

    outcomes: list[Outcome] = field(default_factory=list)
    frontier: list[FrontierPoint] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    signal: list[UpdateSignal] = field(default_factory=list)
