"""First-order changes of every variant, and the frontier that bounds them.

One measurement of influence serves all variants: at a fixed preconditioner a step is
linear in its token weights. The frontier is the most reward at each change of entropy
that choosing tokens can reach.
"""

# Axes: K tokens of the update batch, Q folds, V variants, R rows of sums.

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.estimators import Estimate, Influence, Tables, influence_parts
from entrometer.experiments.compare.plan import PointPlan
from entrometer.experiments.result_fields import estimate_fields
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import HALVES, by_objective
from entrometer.experiments.token_influence.halves import OBJECTIVES, by_half
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import TokenTables, intervention
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.compare import FrontierPoint

CHOOSING, HELD_OUT = 0, 1
"""The even folds choose tokens; the odd ones are held out."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of entropy, reward and length along some steps, one row per step."""

    batch: Evaluation
    eta: float
    parts: dict[str, Float[np.ndarray, "R _"]]
    """Slope by row and fold of `entropy` and `reward`, by row and half of `length`."""

    def changes(self, objective: str, which: int) -> Influence:
        """Return each row's predicted change, on half `CHOOSING` or half `HELD_OUT`."""
        parts, length = (self.eta * self.parts[x] for x in (objective, "length"))
        return by_half(self.batch, objective, parts, length, which=which)

    def combined(self, weights: Float[np.ndarray, "V R"]) -> "Slopes":
        """Return slopes whose rows are weighted sums of these rows."""
        # Exact: changes, and their noise over folds, are linear in the rows.
        parts = {name: weights @ rows for name, rows in self.parts.items()}
        return Slopes(self.batch, self.eta, parts)


@dataclass(frozen=True, eq=False)
class Measured:
    """Derivatives and momentum's effect at a point, which all its variants use."""

    point: PointPlan
    evaluation: Evaluation
    batch: Batch
    """With the token weights of plain Dr-GRPO."""
    tables: TokenTables
    """What interventions read, with influence by the folds that choose."""
    dS: dict[str, Float[np.ndarray, "K _"]]
    dH: dict[str, Float[np.ndarray, "K _"]]
    """Derivatives of S and H of every token along every gradient, by objective."""
    carried: dict[str, Float[np.ndarray, " _"]]
    """Slope along momentum and weight decay, through every gradient, by objective."""
    history: Slopes
    """Slopes along momentum alone, one row."""
    here: Tables
    """S and H of every token of the batch, under the policy that is updated."""

    def slopes(self, batches: Sequence[Batch], *, carried: bool = True) -> Slopes:
        """Return the slope of the step with each batch's weights, one row per batch.

        Without `carried`, momentum and weight decay are left out.
        """
        # At plain's preconditioner, a step is linear in its token weights.
        rows = {}
        for name, rest in self.carried.items():
            dS, dH = self.dS[name], self.dH[name]
            parts = (influence_parts(b.alpha, b.gamma, dS, dH) for b in batches)
            rows[name] = np.stack([p.sum(axis=0) + carried * rest for p in parts])
        return Slopes(self.evaluation, self.point.eta, rows)


def measured(point: PointPlan, store: Path) -> Measured:
    """Return the results of the passes that all interventions of a point share."""
    columns = read_columns(point.adjoint.path(store))
    carried = read_columns(point.carried.path(store))
    evaluation = point.gradients[0].read_batch(store)
    Q = len(point.gradients)
    sizes = {"entropy": ("h", Q), "reward": ("J", Q), "length": ("T", HALVES)}

    def along(kind: str) -> dict[str, np.ndarray]:
        return {
            name: np.stack([columns[f"{kind}_{x}_{q}"] for q in range(n)], axis=1)
            for name, (x, n) in sizes.items()
        }

    # The noise of momentum's part is needed too, as one row.
    history = {n: x[None] for n, x in by_objective(carried["history"]).items()}
    return Measured(
        point=point,
        evaluation=evaluation,
        batch=point.plain.read_batch(store),
        tables=point.seen.read(store, point.adjoint, point.progress),
        dS=along("dS"),
        dH=along("dH"),
        carried=by_objective(carried["history"] + carried["decay"]),
        history=Slopes(evaluation, point.eta, history),
        here=Tables(S=columns["S"], H=columns["H"]),
    )


def choices(measured: Measured, prices: Sequence[float]) -> list[Batch]:
    """Return, per price, the batch with only the tokens that are worth the price."""
    return [
        # repr keeps the price exact in the text of the settings.
        measured.batch.treated(intervention(f"frontier:price={x!r}"), measured.tables)
        for x in prices
    ]


def frontier(
    measured: Measured, chosen: Sequence[Batch], prices: Sequence[float]
) -> list[FrontierPoint]:
    """Return each choice's predicted changes, on held-out and on choosing folds."""
    point, slopes = measured.point, measured.slopes(chosen)
    held_out, fitted = (
        {name: slopes.changes(name, which) for name in OBJECTIVES}
        for which in (HELD_OUT, CHOOSING)
    )
    # A batch without signal has no token to keep.
    tokens = max(1, int(np.count_nonzero(measured.batch.alpha)))
    return [
        FrontierPoint(
            checkpoint=point.checkpoint,
            update=point.update,
            minibatch=point.minibatch,
            eta=point.eta,
            price=price,
            kept=int(np.count_nonzero(batch.alpha)) / tokens,
            **estimate_fields("entropy", held_out["entropy"][i]),
            **estimate_fields("reward", held_out["reward"][i]),
            fitted_entropy=float(fitted["entropy"].value[i]),
            fitted_reward=float(fitted["reward"].value[i]),
        )
        for i, (price, batch) in enumerate(zip(prices, chosen, strict=True))
    ]


def distance_to_frontier(rows: Slopes, variants: int) -> dict[int, Estimate]:
    r"""Return by variant how far its reward is below the frontier; absent if beyond.

    `rows` are the variants, then the frontier's choices by rising price. Between two
    prices the frontier is the mixture of both choices. A variant that lowers entropy
    more than the first choice, for which entropy has no price, is compared with that;
    one that raises entropy more than the last is beyond what choosing tokens can do.

    The mixture is at the variant's measured entropy: an error $\epsilon$ of entropy is
    an error $\lambda\epsilon$ of reward, with $\lambda$ the slope of the frontier.
    """
    h, J = (rows.changes(x, HELD_OUT).value for x in ("entropy", "reward"))
    distances: dict[int, Estimate] = {}
    for v in range(variants):
        mixture = _mixture(h[v], h[variants:])
        if mixture is None:
            continue
        weights = np.concatenate([np.zeros(variants), mixture])[None]
        weights[0, v] -= 1
        both = rows.combined(weights)
        entropy, reward = (both.changes(x, HELD_OUT) for x in ("entropy", "reward"))
        ends = variants + np.flatnonzero(mixture)
        # A single choice has no mixture to adjust for an error of entropy.
        slope = 0.0
        if ends.size == 2:
            slope = (J[ends[1]] - J[ends[0]]) / (h[ends[1]] - h[ends[0]])
        influence = reward.fold_influence - slope * entropy.fold_influence
        Q = reward.folds
        distances[v] = Estimate.symmetric(
            float(reward.value[0]),
            # Sample variance over folds, as if they were of equal size.
            float(np.sqrt(Q / (Q - 1) * (influence**2).sum())),
            degrees_of_freedom=float(Q - 1),
            effective_samples=float(reward.responses),
            prompts=reward.prompts,
        )
    return distances


def _mixture(x: float, h: np.ndarray) -> np.ndarray | None:
    """Return shares of choices that change entropy by x together; None beyond them."""
    shares = np.zeros(h.size)
    if x <= h[0]:
        shares[0] = 1.0
        return shares
    # Held-out entropy need not rise with the price: the first bracket counts.
    for a, b in pairwise(range(h.size)):
        if h[a] <= x <= h[b]:
            t = (x - h[a]) / (h[b] - h[a])
            shares[[a, b]] = 1 - t, t
            return shares
    return None
