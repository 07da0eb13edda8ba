"""The kernel's matrices from rows of gradients: exact, sketched, and across batches."""

# Axes: N sequences, H held-out sequences, U sequences of an update.

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.calculus import Sketch, Vector, inner_products, whiten
from entrometer.calculus.sketch import fold
from entrometer.experiments.kernel.rows import gather, scores, sweeps
from entrometer.experiments.update import StepVectors
from entrometer.experiments.update_batch import Batch
from entrometer.passes import GradientRows, per_sequence
from entrometer.policy import Policy
from entrometer.runs import Rollouts

METRICS = ("sgd", "adam")

COMPARED = 512
"""Sequences, at most, on which sketches of all sizes are held against the kernel."""


def kernels(
    policy: Policy,
    rollouts: Rollouts,
    preconditioner: Vector,
    *,
    sketches: Sequence[int],
    exact: bool,
    memory: int,
    seed: int = 0,
) -> dict[str, Float64[Tensor, "N N"]]:
    r"""Kernels `sgd` and `adam`, and their sketches, from one set of rows.

    $K = \Phi\Phi^\top$ with $\phi = P^{1/2}\nabla S$ and $P = 1$ or the given one. The
    sketches `METRIC/m` are of the first `COMPARED` sequences; where the kernel itself
    is not `exact`, of all of them by the largest m alone, and no row is kept.

    Args:
        policy: At the parameters where gradients are taken.
        rollouts: The sequences.
        preconditioner: Adam's P.
        sketches: Buckets, each a divisor of the largest; none for no sketch.
        exact: Whether the kernel is formed.
        memory: Bytes that rows may take at once.
        seed: Of the sketch.
    """
    N = rollouts.count
    P = {name: p.to(policy.trained()[name]) for name, p in preconditioner.items()}
    found: dict[str, Tensor] = {}
    sketched, look = _sketching(N, P, max(sketches, default=0), seed)
    if exact:
        found = {metric: torch.zeros(N, N, dtype=torch.float64) for metric in METRICS}
        for slabs in sweeps(P, N, memory):
            kept = gather(policy, rollouts, scores(rollouts), slabs, look)
            look = None
            while kept:
                # One slab after another is let go.
                slab, rows_ND = kept.popitem()
                found["sgd"] += _with_itself(rows_ND)
                rows_ND *= slab.of(P).sqrt()
                found["adam"] += _with_itself(rows_ND)
        found = {metric: (K + K.T) / 2 for metric, K in found.items()}
    elif look:
        for part in per_sequence(policy, rollouts, scores(rollouts)):
            look(part)
    for metric, rows_NM in sketched.items():
        for m in sketches if exact else [max(sketches)]:
            folded = fold(rows_NM[:COMPARED] if exact else rows_NM, m)
            found[f"{metric}/{m}"] = _with_itself(folded)
    return found


def cross_kernel(
    policy: Policy,
    rollouts: Rollouts,
    batch: Batch,
    step: StepVectors,
    *,
    memory: int,
) -> Float64[Tensor, "H U"]:
    r"""$\kappa\,\nabla S_t^\top P\sum_{k\in u}\alpha_k\nabla S_k + \gamma_k\nabla H_k$.

    What each sequence u of an update, as its loss asks of each of its tokens, does to
    the log-prob of a sequence t, at unit learning rate. The sum over u is what the
    step does to it, momentum and decay apart.
    """
    K = torch.zeros(rollouts.count, batch.rollouts.count, dtype=torch.float64)
    trained = policy.trained()
    P = {name: p.to(trained[name]) for name, p in step.preconditioner.items()}
    for slabs in sweeps(P, sum(K.shape), memory):
        left = gather(policy, rollouts, scores(rollouts), slabs)
        right = gather(policy, batch.rollouts, batch.weights, slabs)
        for slab in slabs:
            y_UD = right.pop(slab).mul_(slab.of(P))
            K += inner_products({"": left.pop(slab)}, {"": y_UD}).cpu()
    return step.kappa * K


def _with_itself(rows: Tensor) -> Float64[Tensor, "N N"]:
    one = {"": rows}
    return inner_products(one, one).cpu()


def _sketching(
    N: int, P: Vector, m: int, seed: int
) -> tuple[Mapping[str, Tensor], Callable[[GradientRows], None] | None]:
    """Sketches to be filled, and what fills them from whole rows."""
    if not m:
        return {}, None
    sketch = Sketch(m=m, seed=seed)
    sketched = {metric: torch.zeros(N, m, dtype=torch.float64) for metric in METRICS}

    def look(part: GradientRows) -> None:
        sketched["sgd"][part.rows] = sketch.apply(part.gradients).cpu()
        features = whiten(part.gradients, P)
        sketched["adam"][part.rows] = sketch.apply(features).cpu()

    return sketched, look
