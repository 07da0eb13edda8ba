"""Batches for methods that take token ids and labels: padded on the right."""

# Axes: B sequences, T tokens of the longest.

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.kernel.inputs import BUDGET
from entrometer.passes.batches import batches
from entrometer.runs.rollouts import Rollouts


def labelled(rollouts: Rollouts) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Rows, token ids, and labels: -100 where no token is scored.

    Behind a causal mask, tokens to the right are not seen: no method needs a mask.
    """
    for batch in batches(rollouts, device=torch.device("cpu"), budget=BUDGET):
        labels_BT = torch.full_like(batch.input_ids, -100)
        labels_BT.view(-1)[batch.scored + 1] = batch.targets
        yield batch.rows.tolist(), batch.input_ids, labels_BT
