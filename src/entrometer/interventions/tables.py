"""What an intervention sees: tables of tokens, and no model."""

# Axes: B responses, T tokens of a response.

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.errors import MissingKey
from entrometer.tokens import token_ratios


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenTables:
    """Tables of an update batch. Off the mask they may hold anything."""

    S: Float[Tensor, "B T"]
    """Log-prob of each token by the policy that is updated: a loss goes through it."""

    H: Float[Tensor, "B T"]
    """Entropy before each token by the same policy, in nats: likewise."""

    S_old: Float[Tensor, "B T"]
    """Log-prob by the policy that sampled."""

    A: Float[Tensor, "B T"]
    """Advantage of each token: reward less the mean of the group."""

    mask: Bool[Tensor, "B T"]
    """Tokens that the loss counts."""

    group: Int[Tensor, " B"]
    """Prompt group of each response."""

    length_limit: int
    """Length limit of a response, which the loss divides by."""

    concentration: Float[Tensor, "B T"] | None = None
    r"""$\sum_v p_v^2(\log p_v + H)$ before each token, for those that need it."""

    influence: tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]] | None = None
    """Of each token on entropy and on reward, measured elsewhere."""

    seed: int = 0
    """Of what is drawn by lot: the step, in training."""

    progress: float = 0.0
    """Share of the training that is behind, for what follows a schedule."""

    @cached_property
    def ratio(self) -> Float[Tensor, "B T"]:
        r"""$r = e^{S - S_\text{old}}$; 1 off the mask. A loss goes through it."""
        return token_ratios(self.S, self.S_old, self.mask)

    @cached_property
    def p(self) -> Float[Tensor, "B T"]:
        """Probability of each token, detached; 1 off the mask."""
        return self.S.detach().where(self.mask, 0.0).exp()

    @cached_property
    def mean_entropy(self) -> float:
        """Mean over the counted tokens of the batch, in nats."""
        return float(self.H.detach()[self.mask].mean())

    def need(self, name: str, who: str) -> Any:
        """A table, or a pair of them, that not every batch has."""
        table = getattr(self, name)
        if table is None:
            raise MissingKey(
                f"expected the table {name!r}, which the intervention {who!r} reads, "
                "got a batch without it; measure it, or take another intervention"
            )
        return table

    def rows(self, chosen: slice) -> "TokenTables":
        """Some of the responses."""
        concentration, pair = self.concentration, self.influence
        return replace(
            self,
            S=self.S[chosen],
            H=self.H[chosen],
            S_old=self.S_old[chosen],
            A=self.A[chosen],
            mask=self.mask[chosen],
            group=self.group[chosen],
            concentration=None if concentration is None else concentration[chosen],
            influence=None if pair is None else (pair[0][chosen], pair[1][chosen]),
        )

    @property
    def count(self) -> int:
        """Responses."""
        return self.S.shape[0]


def standardise(
    values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """Values less their mean, over their deviation, both of the counted tokens."""
    own = values[mask]
    return (values - own.mean()) / own.std()


def top(
    score: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], count: int
) -> Bool[Tensor, "B T"]:
    """The `count` counted tokens of the largest score; the earlier of equal ones."""
    lowest = score.where(mask, -torch.inf).flatten()
    order = lowest.argsort(descending=True, stable=True)[: min(count, int(mask.sum()))]
    chosen = torch.zeros_like(lowest, dtype=torch.bool)
    chosen[order] = True
    return chosen.reshape(score.shape)
