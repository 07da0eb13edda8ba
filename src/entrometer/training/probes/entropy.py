"""Entropy of the update batch, in nats."""

# Axes: N responses of an update.

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entrometer.estimators import PromptSums, entropy
from entrometer.training.instruments import Instrument, MicroBatch


class Entropy(Instrument):
    r"""Logs $h = \sum H_k/\sum T$ a token and $\mathcal H = \sum H_k/n$ a response.

    The sums run over the tokens that the loss counts, in all micro-batches of an update
    and all processes: one ratio, where a trainer logs a mean of ratios. $H_k$ is the
    entropy of the whole vocabulary at the trainer's sampling temperature. Standard
    errors are clustered by prompt group. A response of which no token is counted is
    not one of the $n$.

    Logs `entropy/token`, `entropy/sequence` and each with `_se`.
    """

    def __init__(self) -> None:
        """Start with an empty update."""
        self._rows: list[Tensor] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Sum over the tokens of each response."""
        mask = micro.response_mask.bool()
        H = micro.H.float().where(mask, 0.0)
        # Float32 holds the number of a group exactly, and one tensor is one gather.
        columns = (micro.group, H.sum(dim=1), mask.sum(dim=1))
        self._rows.append(torch.stack([c.float() for c in columns], dim=1))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Entropy of the update, from all its responses."""
        rows: Tensor = trainer.accelerator.gather(torch.cat(self._rows))
        self._rows = []
        group, H, T = rows.cpu().double().numpy().T
        if not T.any():
            names = ("token", "token_se", "sequence", "sequence_se")
            return {f"entropy/{name}": math.nan for name in names}
        sums = PromptSums.of(group.astype(np.int64), responses=np.sign(T), H=H, T=T)
        token, sequence = entropy(sums), entropy(sums, per="sequence")
        return {
            "entropy/token": token.value,
            "entropy/token_se": token.standard_error,
            "entropy/sequence": sequence.value,
            "entropy/sequence_se": sequence.standard_error,
        }
