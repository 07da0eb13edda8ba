"""Governor: an entropy bonus whose strength holds the entropy at a target."""

import math

from entrometer.interventions.entropy_bonus import entropy_bonus
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables

_LARGEST_ERROR = 1.2
"""Error beyond which the strength does not rise or fall further: a factor of 3.3."""

_FAST, _SLOW = 0.8, 0.3
"""Weights of a new measurement in the two moving averages of the entropy."""

_APART = (1 - _SLOW) / _SLOW - (1 - _FAST) / _FAST
"""Steps that the slow average is behind the fast one on a straight course."""


def _next_settings(settings: dict[str, float], entropy: float) -> dict[str, float]:
    s, target = settings, settings["target"] * settings["decay"]
    # Both averages begin at the first measurement.
    fast = (1 - _FAST) * (s["fast"] or entropy) + _FAST * entropy
    slow = (1 - _SLOW) * (s["slow"] or entropy) + _SLOW * entropy
    change = (fast - slow) / _APART
    # Momentum carries the change on: the error is that of the entropy some steps on.
    # Where that is negative, any fraction of the target has the largest error.
    ahead = max(fast + s["lead"] * change, 0.1 * target)
    error = math.log(target / ahead)
    base = s["base"]
    # Far from the target the gain alone acts: an integral of the way there would
    # overshoot.
    if abs(error) < _LARGEST_ERROR:
        base *= math.exp(s["integral"] * error)
    base = min(max(base, s["smallest"]), s["largest"])
    more = math.expm1(s["gain"] * min(abs(error), _LARGEST_ERROR))
    alpha = base * (1 + more if error > 0 else 1 - more)
    # On its way down from far above, entropy is left to the loss.
    lowest = -base if fast < target * math.exp(_LARGEST_ERROR) else 0.0
    highest = min(s["growth"] * max(s["alpha"], base), s["largest"])
    alpha = min(max(alpha, lowest), highest)
    state = {"alpha": alpha, "base": base, "fast": fast, "slow": slow}
    return settings | {"target": target} | state


@register(
    "governor",
    adapt=_next_settings,
    over_steps=True,
    positive=("target", "base", "smallest", "decay", "growth"),
    signed=("alpha",),
)
def governor(
    tables: TokenTables,
    *,
    target: float = 0.3,
    alpha: float = 0.01,
    base: float = 0.04,
    fast: float = 0.0,
    slow: float = 0.0,
    gain: float = 4.0,
    integral: float = 0.2,
    lead: float = 5.0,
    growth: float = 2.0,
    decay: float = 1.0,
    smallest: float = 1e-3,
    largest: float = 0.5,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""The entropy bonus $-\alpha\bar H$ with an $\alpha$ that holds $\bar H$.

    After each step, with $h$ the average entropy of the last batches (`fast`), $\dot h$
    its change per step (from `fast` and `slow`) and the error
    $e = \log(\text{target}/(h + \text{lead}\cdot\dot h))$, limited to a factor of 3.3,
    $$b \leftarrow b\,e^{\text{integral}\cdot e},\qquad
      \alpha = b\,e^{\text{gain}\cdot e}\text{ for }e > 0,\quad
      \alpha = b\,(2 - e^{-\text{gain}\cdot e})\text{ for }e < 0.$$
    So $b$ (`base`) is the strength that holds the entropy where it is: constant while
    the error is at its limit, at least `smallest`. $\alpha$ is at most `largest` and
    `growth` times the last step's or $b$, so that one noisy batch does not push entropy
    up for the ten steps that momentum goes on; it is at least $-b$, and at least 0
    while $h$ is more than a factor of 3.3 above the target: a governor takes back what
    it pushed too far, and leaves the way down to the loss. `lead` accounts for
    momentum, through which past steps still act. The target falls by the factor `decay`
    after each step.
    """
    return entropy_bonus(tables, alpha=alpha, low=low, high=high)
