"""One simulated measurement: K update batches and an evaluation batch, both drawn."""

# Axes: N all responses, Q folds, K update batches, D parameters, n responses drawn.

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.next_batch.world import World
from entrometer.estimators import (
    FoldContributions,
    Influence,
    token_influence,
)

FOLDS = 8


@dataclass(frozen=True, eq=False)
class Responses:
    """What each response contributes to the gradients of entropy and reward."""

    world: World

    @cached_property
    def entropy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        r"""Summed entropy and length, $\nabla N$ and $\nabla D$ of each response."""
        here, _ = self.world.trained
        J_S, J_H = (x.reshape(*here.mask.shape, -1) for x in self.world.jacobians)
        mask = here.mask.numpy().astype(float)
        H = here.padded(here.theta)[1].detach().numpy() * mask
        # A token affects the entropies and the length after it.
        to_go = H.sum(axis=1, keepdims=True) - H.cumsum(axis=1)
        left = mask.sum(axis=1, keepdims=True) - mask.cumsum(axis=1)
        N1 = np.einsum("nl,nld->nd", to_go * mask, J_S) + J_H.sum(axis=1)
        D1 = np.einsum("nl,nld->nd", left * mask, J_S)
        return H.sum(axis=1), mask.sum(axis=1), N1, D1

    @cached_property
    def scores(self) -> np.ndarray:
        """Gradient of each response's log-prob, (N, D)."""
        here, _ = self.world.trained
        of_tokens = self.world.jacobians[0].reshape(*here.mask.shape, -1)
        return np.asarray(of_tokens.sum(axis=1))

    def slopes(
        self, objective: str, rows: np.ndarray, directions: np.ndarray
    ) -> Influence:
        """Slopes along K directions, as `compare` estimates them: by fold of prompts.

        `rows` are the evaluation batch's responses, (Q, n/Q).
        """
        Q = len(rows)
        if objective == "reward":
            r = self.world.rewards[rows]
            centred = (r - r.mean()) * r.size / (r.size - 1) / r.size
            g = np.einsum("qn,qnd->qd", centred, self.scores[rows])
            parts = FoldContributions(parts=directions @ g.T, size=np.full(Q, 1 / Q))
        else:
            H, T, N1, D1 = (x[rows].sum(axis=1) for x in self.entropy)
            R, total = H.sum() / T.sum(), T.sum()
            parts = FoldContributions(
                parts=directions @ (N1 - R * D1).T / total,
                size=T / total,
                residual=(H - R * T) / total,
                length=directions @ D1.sum(axis=0) / total,
            )
        return token_influence(parts, prompts=rows.size, responses=rows.size)
