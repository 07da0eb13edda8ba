"""Probes of the update batch: its entropy, effective sample size, and signal."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor

from entrometer.estimators import PromptSums, entropy
from entrometer.training.instruments import Instrument
from entrometer.training.micro_batch import MicroBatch

_EQUAL = 1e-3
"""Largest advantage that rounding can make of equal rewards."""


class Entropy(Instrument):
    r"""Logs the entropy per token $h = \sum H_k/\sum T$ and per response $\sum H_k/n$.

    The sums run over the tokens that enter the loss, in all micro-batches of an update
    and on all processes: one ratio, where TRL logs a mean of ratios. $H_k$ is the
    entropy over the complete vocabulary at the trainer's sampling temperature, in
    nats. Standard errors are clustered by prompt group. Responses without counted
    tokens are not among the $n$.

    Logs `entropy/token`, `entropy/sequence` and each with `_se`.
    """

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Sum the entropy over the tokens of each response."""
        mask = micro.response_mask.bool()
        H = micro.H.float().where(mask, 0.0)
        # One tensor, so that processes exchange data once. Float32 holds the index of a
        # group exactly.
        columns = (micro.group, H.sum(dim=1), mask.sum(dim=1))
        self._rows.append(torch.stack([c.float() for c in columns], dim=1))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return the entropy of the update, over all its responses."""
        rows: Tensor = trainer.accelerator.gather(torch.cat(self._rows))
        self._rows = []
        group, H, T = rows.cpu().double().numpy().T
        values = [math.nan] * 4
        if T.any():
            sums = PromptSums.of(group.astype(np.int64), responses=np.sign(T), H=H, T=T)
            pair = entropy(sums), entropy(sums, per="sequence")
            values = [x for e in pair for x in (e.value, e.standard_error)]
        names = ("token", "token_se", "sequence", "sequence_se")
        return {f"entropy/{n}": x for n, x in zip(names, values, strict=True)}


class EffectiveSampleSize(Instrument):
    r"""Logs $(\sum|\alpha|)^2/\sum\alpha^2$ of the weights of tokens in the gradient.

    $\alpha = -\partial L/\partial S$, whatever the loss is: clipped tokens have weight
    0, and so have responses with the mean reward of their group.

    Logs, over all micro-batches and processes, `effective_samples/tokens`,
    `effective_samples/responses` (of $\sum_k|\alpha_{ik}|$), and
    `effective_samples/ratios` (of $r = e^{S - S_{old}}$ alone: the number of tokens if
    the policy is the sampling policy).
    """

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Add the moments of the weights of a micro-batch."""
        mask = micro.response_mask.bool()
        r = (micro.S - micro.S_old).where(mask, 0.0).exp() * mask
        w = micro.alpha.abs()
        columns = (w, w.sum(dim=1), r)
        self._sums.append(torch.stack([m for c in columns for m in _moments(c)]))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return effective samples by weight of tokens and responses, and by ratio."""
        local = torch.stack(self._sums).sum(dim=0)
        self._sums = []
        sums = trainer.accelerator.reduce(local, reduction="sum").tolist()
        names = ("tokens", "responses", "ratios")
        return {
            f"effective_samples/{name}": first**2 / second if second else math.nan
            for name, first, second in zip(names, sums[::2], sums[1::2], strict=True)
        }


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(), x.square().sum()


class GroupSignal(Instrument):
    """Logs `signal/groups`: the share of prompt groups whose rewards differ."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, float]] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Store the largest advantage of each response."""
        largest = micro.advantage.abs().amax(dim=1).tolist()
        self._rows += zip(micro.group.tolist(), largest, strict=True)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return the share of the update's groups with a signal."""
        rows: list[tuple[int, float]] = gather_object(self._rows)
        self._rows = []
        groups: dict[int, float] = {}
        for group, advantage in rows:
            groups[group] = max(groups.get(group, 0.0), advantage)
        return {"signal/groups": float(np.mean([x > _EQUAL for x in groups.values()]))}
