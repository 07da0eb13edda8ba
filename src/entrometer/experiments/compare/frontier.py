"""The frontier: the most reward at each change of entropy, by choosing tokens."""

# Axes: K tokens of the update batch, X prices.

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from entrometer.estimators import Estimate
from entrometer.experiments.compare.slopes import Measured, Slopes
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import intervention
from entrometer.runs.tables.compare import FrontierPoint


def choices(found: Measured, prices: Sequence[float]) -> list[Batch]:
    """The batch with the tokens that are worth their price, for each of some."""
    return [
        found.batch.treated(intervention(f"frontier:price={x!r}"), found.tables)
        for x in prices
    ]


def frontier(
    found: Measured, chosen: Sequence[Batch], prices: Sequence[float]
) -> list[FrontierPoint]:
    """What each choice does, by the half that judges and by the half that chose."""
    slopes = found.slopes(list(chosen))
    judged = {name: slopes.changes(name, 1) for name in ("entropy", "reward")}
    fitted = {name: slopes.changes(name, 0) for name in ("entropy", "reward")}
    pulled = max(1, int(np.count_nonzero(found.batch.alpha)))
    return [
        FrontierPoint(
            checkpoint=found.point.checkpoint,
            update=found.point.update,
            minibatch=found.point.minibatch,
            eta=found.point.eta,
            price=price,
            kept=int(np.count_nonzero(batch.alpha)) / pulled,
            **estimate_fields("entropy", judged["entropy"][i]),
            **estimate_fields("reward", judged["reward"][i]),
            fitted_entropy=float(fitted["entropy"].value[i]),
            fitted_reward=float(fitted["reward"].value[i]),
        )
        for i, (price, batch) in enumerate(zip(prices, chosen, strict=True))
    ]


def below(rows: Slopes, variants: int) -> dict[int, Estimate]:
    r"""How far each variant stays below the frontier, where that reaches.

    Args:
        rows: Slopes of the variants, then of the frontier, by rising price.
        variants: How many they are.

    Between two prices the frontier is the mixture of both choices. What drains more
    than the first choice, to which entropy is free, is held against that one; what
    raises entropy more than the last is beyond what choosing tokens can do.

    The mixture is at the variant's entropy as measured: an error $\epsilon$ of that is
    one of $\lambda\epsilon$ of the reward, with $\lambda$ the slope of the frontier.
    """
    h, J = (rows.changes(x, 1).value for x in ("entropy", "reward"))
    found: dict[int, Estimate] = {}
    for v in range(variants):
        mixture = _mixture(h[v], h[variants:])
        if mixture is None:
            continue
        weights = np.zeros((1, h.size))
        weights[0, variants:] = mixture
        weights[0, v] -= 1
        both = rows.combined(weights)
        entropy, reward = (both.changes(x, 1) for x in ("entropy", "reward"))
        ends = variants + np.flatnonzero(mixture)
        slope = 0.0
        if ends.size == 2:
            slope = (J[ends[1]] - J[ends[0]]) / (h[ends[1]] - h[ends[0]])
        pulls = reward.fold_influence - slope * entropy.fold_influence
        # As for folds of equal size.
        Q = reward.folds
        found[v] = Estimate.symmetric(
            float(reward.value[0]),
            float(np.sqrt(Q / (Q - 1) * (pulls**2).sum())),
            degrees_of_freedom=float(Q - 1),
            effective_samples=float(reward.responses),
            prompts=reward.prompts,
        )
    return found


def _mixture(x: float, h: np.ndarray) -> np.ndarray | None:
    """Shares of the choices that together change entropy by x; None beyond them."""
    shares = np.zeros(h.size)
    if x <= h[0]:
        shares[0] = 1.0
        return shares
    for a, b in pairwise(range(h.size)):
        if h[a] <= x <= h[b]:
            t = (x - h[a]) / (h[b] - h[a])
            shares[[a, b]] = 1 - t, t
            return shares
    return None
