"""The pass that looks at whole distributions: sums of squared probabilities."""

# Axes: K tokens of all responses (layout: Responses).

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from entrometer.passes.batches import TOKEN_BUDGET, Padding, batches
from entrometer.passes.forward import head_of, require_whole_vocabulary
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


class Concentration(NamedTuple):
    """Sums over the vocabulary before each response token."""

    squared: Float[np.ndarray, " K"]
    r"""$\sum_v p_v^2$, the chance that two draws are the same token."""

    surplus: Float[np.ndarray, " K"]
    r"""$\sum_v p_v^2(\log p_v + H)$."""


def concentration(
    policy: Policy,
    rollouts: Rollouts,
    *,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> Concentration:
    r"""$\sum_v p_v^2$ and $\sum_v p_v^2(\log p_v + H)$ before every response token.

    They are what a softmax with a table of logits needs beside S and H: one step on the
    logit of a token takes probability from all others in proportion to theirs.
    """
    require_whole_vocabulary(rollouts)
    head = head_of(policy, rollouts)
    columns = np.empty((2, rollouts.tokens))
    with torch.no_grad():
        for batch in batches(
            rollouts,
            device=policy.device,
            vocabulary=policy.vocabulary,
            budget=budget,
            padding=padding,
        ):
            h = policy.hidden(batch.input_ids, **batch.inputs)[batch.scored]
            for column, found in zip(
                columns, head.concentration(h.to(head.weight)), strict=True
            ):
                column[batch.columns] = found.cpu()
    return Concentration(*columns)
