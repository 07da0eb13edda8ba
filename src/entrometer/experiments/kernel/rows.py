"""Rows of gradients of all sequences, as many parameters at a time as memory holds."""

# Axes: N sequences, D elements of a slab.

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector
from entrometer.errors import InvalidValue
from entrometer.estimators import GradientWeights
from entrometer.policy import Policy
from entrometer.runs import Rollouts


class Slab(NamedTuple):
    """Neighbouring elements of one parameter, laid flat."""

    name: str
    start: int
    stop: int

    def of(self, vector: Vector) -> Float[Tensor, " D"]:
        """These elements of a vector."""
        return vector[self.name].reshape(-1)[self.start : self.stop]


def sweeps(params: Vector, rows: int, memory: int) -> Iterator[list[Slab]]:
    r"""Slabs whose rows fit in memory together; in all, every element once.

    A kernel is a sum over parameters, $K = \sum_l\Phi_l\Phi_l^\top$, so all rows of
    some of them are enough at a time. Each sweep costs a pass over all sequences:
    $\lceil N d\,b/\text{memory}\rceil$ of them, for elements of b bytes.
    """
    itemsize = max(p.element_size() for p in params.values())
    room = memory // (rows * itemsize)
    if room < 1:
        raise InvalidValue(
            f"expected memory for one element of {rows} rows, got {memory} bytes"
        )
    sweep: list[Slab] = []
    left = room
    for name, p in params.items():
        start = 0
        while start < p.numel():
            stop = min(start + left, p.numel())
            sweep.append(Slab(name, start, stop))
            left -= stop - start
            start = stop
            if not left:
                yield sweep
                sweep, left = [], room
    if sweep:
        yield sweep


def gather(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    slabs: Sequence[Slab],
    look: Callable[[passes.GradientRows], None] | None = None,
) -> dict[Slab, Float[Tensor, "N D"]]:
    """Rows of all sequences in some slabs, by one pass over the sequences.

    Args:
        policy: At the parameters where gradients are taken.
        rollouts: The sequences.
        weights: Of every token.
        slabs: What is kept of the rows.
        look: Shown whole rows, batch by batch.
    """
    trained = policy.trained()
    kept = {
        slab: trained[slab.name].new_empty(rollouts.count, slab.stop - slab.start)
        for slab in slabs
    }
    names = None if look else {slab.name for slab in slabs}
    for part in passes.per_sequence(policy, rollouts, weights, names=names):
        if look:
            look(part)
        at = torch.as_tensor(part.rows)
        for slab, rows_ND in kept.items():
            whole = part.gradients[slab.name].flatten(1)
            rows_ND[at.to(rows_ND.device)] = whole[:, slab.start : slab.stop]
    return kept


def scores(rollouts: Rollouts) -> GradientWeights:
    r"""Weights whose gradient is $\nabla S$ of a whole response."""
    return GradientWeights(S=np.ones(rollouts.tokens), H=np.zeros(rollouts.tokens))
