r"""The kernel between sequences, $K = J P J^\top$: exact, sketched, matrix-free."""

# Axes: N sequences, H held-out sequences, U sequences of an update, D elements of a
# slab, M buckets of a sketch.

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Sketch, Vector, inner_products, multiply, whiten
from entrometer.calculus.sketch import fold
from entrometer.errors import InvalidValue
from entrometer.estimators import GradientWeights
from entrometer.experiments.update import StepVectors
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy
from entrometer.runs import Rollouts

METRICS = ("sgd", "adam")  #: P is 1, or AdamW's preconditioner.

COMPARED = 512
"""Sequences, at most, on which sketches of all sizes are compared with the kernel."""


class Slab(NamedTuple):
    """Neighbouring elements of one flattened parameter."""

    name: str
    start: int
    stop: int

    def of(self, vector: Vector) -> Float[Tensor, " D"]:
        """Return these elements of a vector."""
        return vector[self.name].reshape(-1)[self.start : self.stop]


def sweeps(params: Vector, rows: int, memory: int) -> Iterator[list[Slab]]:
    r"""Yield lists of slabs whose rows fit in memory; together, every element once.

    A kernel is a sum over parameters, $K = \sum_l\Phi_l\Phi_l^\top$, so it can be added
    up slab by slab. Each list costs a pass over all sequences:
    $\lceil N d\,b/\text{memory}\rceil$ of them, for elements of b bytes.
    """
    # The largest element size, so that no mix of types exceeds the memory.
    itemsize = max(p.element_size() for p in params.values())
    capacity = memory // (rows * itemsize)
    if capacity < 1:
        raise InvalidValue(
            f"expected memory for one element of {rows} rows, got {memory} bytes; "
            "set more --memory"
        )
    sweep: list[Slab] = []
    left = capacity
    for name, p in params.items():
        start = 0
        # A parameter larger than what is left is split, so that sweeps are full.
        while start < p.numel():
            stop = min(start + left, p.numel())
            sweep.append(Slab(name, start, stop))
            left -= stop - start
            start = stop
            if not left:
                yield sweep
                sweep, left = [], capacity
    if sweep:
        yield sweep


def gather(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    slabs: Sequence[Slab],
    look: Callable[[passes.GradientRows], None] | None = None,
) -> dict[Slab, Float[Tensor, "N D"]]:
    """Return the gradient rows of all sequences in some slabs, by one pass.

    `look` is called with the complete rows of every batch.
    """
    trained = policy.trained()
    kept = {
        slab: trained[slab.name].new_empty(rollouts.count, slab.stop - slab.start)
        for slab in slabs
    }
    # Without `look`, gradients of the other parameters are not even computed.
    names = None if look else {slab.name for slab in slabs}
    for part in passes.per_sequence(policy, rollouts, weights, names=names):
        if look:
            look(part)
        # Rows come in batches of similar length, not in the order of the rollouts.
        at = torch.as_tensor(part.rows)
        for slab, rows_ND in kept.items():
            whole = part.gradients[slab.name].flatten(1)
            rows_ND[at.to(rows_ND.device)] = whole[:, slab.start : slab.stop]
    return kept


def scores(rollouts: Rollouts) -> GradientWeights:
    r"""Return token weights with which each gradient is $\nabla S$ of a response."""
    return GradientWeights(S=np.ones(rollouts.tokens), H=np.zeros(rollouts.tokens))


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
    r"""Return the kernels `sgd` and `adam`, and their sketches, from one set of rows.

    $K = \Phi\Phi^\top$ with $\phi = P^{1/2}\nabla S$ and $P = 1$ or the given one. The
    sketches `METRIC/m` are of the first `COMPARED` sequences. If the kernel is not
    `exact`, they are of all sequences, by the largest m alone, and no row is kept.
    Each m divides the largest; `memory` is in bytes.
    """
    N = rollouts.count
    P = {name: p.to(policy.trained()[name]) for name, p in preconditioner.items()}
    result: dict[str, Tensor] = {}
    sketched, look = _sketching(N, P, max(sketches, default=0), seed)
    if exact:
        result = {metric: torch.zeros(N, N, dtype=torch.float64) for metric in METRICS}
        for slabs in sweeps(P, N, memory):
            kept = gather(policy, rollouts, scores(rollouts), slabs, look)
            # The first sweep has shown every row to the sketch.
            look = None
            while kept:
                # Popped, so that the memory of each slab is freed after its product.
                slab, rows_ND = kept.popitem()
                result["sgd"] += _gram(rows_ND)
                rows_ND *= slab.of(P).sqrt()
                result["adam"] += _gram(rows_ND)
        # Matrix products need not be symmetric to the last bit; `eigvalsh` reads half.
        result = {metric: (K + K.T) / 2 for metric, K in result.items()}
    elif look:
        for part in passes.per_sequence(policy, rollouts, scores(rollouts)):
            look(part)
    for metric, rows_NM in sketched.items():
        for m in sketches if exact else [max(sketches)]:
            folded = fold(rows_NM[:COMPARED] if exact else rows_NM, m)
            result[f"{metric}/{m}"] = _gram(folded)
    return result


def cross_kernel(
    policy: Policy, rollouts: Rollouts, batch: Batch, step: StepVectors, *, memory: int
) -> Float64[Tensor, "H U"]:
    r"""$\kappa\,\nabla S_t^\top P\sum_{k\in u}\alpha_k\nabla S_k + \gamma_k\nabla H_k$.

    The change of the log-prob of sequence t by sequence u of an update, with the
    weights of the update's loss, per unit learning rate. The sum over u is the change
    by the step without its momentum and weight decay.
    """
    K = torch.zeros(rollouts.count, batch.rollouts.count, dtype=torch.float64)
    trained = policy.trained()
    P = {name: p.to(trained[name]) for name, p in step.preconditioner.items()}
    # Rows of both batches are in memory at the same time.
    for slabs in sweeps(P, sum(K.shape), memory):
        left = gather(policy, rollouts, scores(rollouts), slabs)
        right = gather(policy, batch.rollouts, batch.weights, slabs)
        for slab in slabs:
            y_UD = right.pop(slab).mul_(slab.of(P))
            K += inner_products({"": left.pop(slab)}, {"": y_UD}).cpu()
    return step.kappa * K


def _gram(rows: Tensor) -> Float64[Tensor, "N N"]:
    # Matrices are kept on the CPU: a GPU's memory is for the rows.
    return inner_products({"": rows}, {"": rows}).cpu()


def _sketching(
    N: int, P: Vector, m: int, seed: int
) -> tuple[Mapping[str, Tensor], Callable[[passes.GradientRows], None] | None]:
    """Return empty sketches, and a function that fills them from complete rows."""
    if not m:
        return {}, None
    sketch = Sketch(m=m, seed=seed)
    sketched = {metric: torch.zeros(N, m, dtype=torch.float64) for metric in METRICS}

    def look(part: passes.GradientRows) -> None:
        sketched["sgd"][part.rows] = sketch.apply(part.gradients).cpu()
        features = whiten(part.gradients, P)
        sketched["adam"][part.rows] = sketch.apply(features).cpu()

    return sketched, look


def kernel_operator(
    policy: Policy, rollouts: Rollouts, preconditioner: Vector
) -> LinearOperator[np.float64]:
    r"""Return the operator $K = J P J^\top$, $J_{ij} = \partial S_i/\partial\theta_j$.

    A product is one `vjp` with the weight $a_i$ on every token of sequence i, and one
    `jvp` along P times that gradient: no row of J is ever formed.
    """
    responses = passes.layout(rollouts)
    zeros = np.zeros(rollouts.tokens)

    def product(a: NDArray[np.generic]) -> NDArray[np.float64]:
        # SciPy passes vectors of shape (N,) or (N, 1).
        a_K = responses.spread(np.asarray(a, np.float64).reshape(-1))
        weights = GradientWeights(S=a_K, H=zeros)
        gradient = passes.vjp(policy, rollouts, weights).gradient
        along = passes.jvp(policy, rollouts, [multiply(preconditioner, gradient)])
        Ka: np.ndarray = responses.total(along.tangents[0].dS)
        return Ka

    N = rollouts.count
    # K is symmetric, so the transposed product is the same.
    return LinearOperator((N, N), matvec=product, rmatvec=product, dtype=np.float64)


def top_eigenvalues(
    operator: LinearOperator[np.float64], count: int
) -> Float[np.ndarray, " count"]:
    """Return the `count` largest eigenvalues, descending, by Lanczos iteration."""
    N = operator.shape[0]
    if count >= N:
        # Lanczos iteration finds at most N - 1, so form the matrix by N products.
        columns = [operator.matvec(e) for e in np.eye(N)]
        ascending: np.ndarray = np.linalg.eigvalsh(np.stack(columns, axis=1))
        return ascending[::-1]
    # A fixed start makes results reproducible; ARPACK's default is random.
    start = np.random.default_rng(0).normal(size=N)
    # The error of an eigenvalue is the square of its vector's error, so 1e-6 is enough.
    # With float32 products the default, machine precision, is never reached.
    largest: np.ndarray = eigsh(
        operator, k=count, which="LA", v0=start, tol=1e-6, return_eigenvectors=False
    )
    return np.sort(largest)[::-1]
