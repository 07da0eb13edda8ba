"""What a machine does a second, and how close a kind of pass comes to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from benchmarks.cost_model.flops.work import Work


@dataclass(frozen=True)
class Machine:
    """What computes."""

    flops: float
    r"""$\varphi$, FLOP a second of large products."""

    bandwidth: float
    r"""$\beta$, bytes a second of memory."""

    single: float | None = None
    """FLOP a second in float32, where the policy computes in less."""

    link: float | None = None
    """Bytes a second that a process gets from the others of its group."""

    def ideal(self, work: Work) -> float:
        r"""Seconds without a delay: $\text{FLOP}/\varphi + \text{bytes}/\beta$.

        Their sum and not the larger: the elementwise operations between the products
        wait for them. What processes exchange is added too, as if nothing hid it.
        """
        exchanged = work.exchanged / self.link if self.link else 0.0
        return self.of_tokens(work) + work.weights / self.bandwidth + exchanged

    def of_tokens(self, work: Work) -> float:
        """Of them, those that grow with the tokens: all but reading the policy."""
        head = work.single / (self.single or self.flops)
        return work.flop / self.flops + head + work.bytes / self.bandwidth


@dataclass(frozen=True)
class Rate:
    r"""Seconds of a kind of pass: $t = c\,\text{calls} + \sigma\,t_\text{tokens}$."""

    call: float
    """$c$, seconds that a call of the model costs by itself, with reading the policy.

    Not stretched with the rest: where a call is for few tokens, as in sampling, memory
    goes at its full speed while products are far from theirs.
    """

    stretch: float
    r"""$\sigma$, times that the machine's ideal takes; an efficiency is $1/\sigma$."""

    first: float = 0.0
    """What the first of a process takes longer."""

    def seconds(self, machine: Machine, work: Work) -> float:
        """Of one pass that is not the first."""
        return self.call * work.calls + self.stretch * machine.of_tokens(work)


def fit_rate(
    machine: Machine,
    works: Sequence[Work],
    seconds: Sequence[float],
    first: float = 0.0,
) -> Rate:
    """The rate with the least relative errors on what was timed; neither part below 0.

    Relative: a pass that is ten times as long says no more about a call.
    """
    t = np.array(seconds)
    terms = np.array([[work.calls, machine.of_tokens(work)] for work in works])
    # In units of the largest, or the solver takes the smaller column for rounding.
    units = np.maximum(terms.max(axis=0), np.finfo(float).tiny)
    found, _ = nnls(terms / units / t[:, None], np.ones(len(t)))
    call, stretch = (found / units).tolist()
    return Rate(call, stretch, first)


_HALF = Machine(flops=989e12, bandwidth=3.35e12, single=67e12)
H100 = {
    "float32": Machine(flops=67e12, bandwidth=3.35e12),
    "bfloat16": _HALF,
    "mixed": _HALF,
}
"""The peaks of one H100 SXM by its data sheet, dense; float32 without TF32."""
