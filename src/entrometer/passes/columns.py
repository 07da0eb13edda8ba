"""The batches of a pass, and the columns that they fill, alone or in a group."""

# Axes: K tokens of all responses (layout: Responses).

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.calculus.sharded import sum_over
from entrometer.passes.batches import Batch, Padding, batches
from entrometer.policy.architectures import KNOWN, kind
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class Columns:
    """Numbers of each response token, filled batch by batch by a group's processes."""

    def __init__(self, policy: Policy, rollouts: Rollouts, count: int) -> None:
        self._mesh, self._device = policy.mesh, policy.device
        self._values = np.zeros((count, rollouts.tokens))

    def fill(self, batch: Batch, values: Iterable[Tensor]) -> None:
        """Set the numbers of a batch's tokens, one tensor per column."""
        for column, some in zip(self._values, values, strict=True):
            column[batch.columns] = some.cpu()

    def filled(self) -> Float[np.ndarray, "columns K"]:
        """Return the columns once every process has filled those of its batches."""
        if self._mesh is None:
            return self._values
        # Zeros elsewhere: the sum has the bits that its one process has.
        shares = torch.as_tensor(self._values, device=self._device)
        return sum_over(self._mesh, shares).cpu().numpy()


def own_batches(
    policy: Policy, rollouts: Rollouts, budget: int, padding: Padding | None = None
) -> Iterator[Batch]:
    """Yield the batches that this process computes; all of them without a group.

    A group goes over the batches in rounds. Whoever has none in the last round gets
    one of another with nothing scored in it: gathering weights takes all processes.
    """
    every = policy_batches(policy, rollouts, budget, padding)
    if policy.mesh is None:
        yield from every
        return
    rank, size = policy.mesh.get_local_rank(), policy.mesh.size()
    while members := list(islice(every, size)):
        together = np.concatenate([batch.columns for batch in members])
        mine = members[rank] if rank < len(members) else members[-1].unscored()
        yield mine._replace(together=together)


def policy_batches(
    policy: Policy, rollouts: Rollouts, budget: int, padding: Padding | None = None
) -> Iterator[Batch]:
    """Return the batches of these rollouts for this policy.

    Without `padding`, responses share the tokens of their prompt where the architecture
    is known to mix tokens by attention alone. Otherwise each response has a row, padded
    on that side.
    """
    return batches(
        rollouts,
        device=policy.device,
        vocabulary=policy.vocabulary,
        budget=budget,
        padding=padding or "right",
        shared=padding is None and kind(policy.base) in KNOWN,
    )
