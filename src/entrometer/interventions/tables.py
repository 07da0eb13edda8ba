"""Token tables of an update batch, from which an intervention computes its losses."""

# Axes: B responses, T tokens of a response.

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.errors import MissingKey
from entrometer.tokens import token_ratios

PerToken = Float[Tensor, "B T"]  #: A number for each token, such as its loss.


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenTables:
    """Tables of an update batch. Values off the mask are arbitrary."""

    S: PerToken  #: Log-prob of each token by the policy being updated; differentiable.
    H: PerToken  #: Entropy before each token by that policy, in nats; differentiable.
    S_old: PerToken  #: Log-prob by the policy that sampled.
    A: PerToken  #: Advantage of each token, such as reward minus the group's mean.
    mask: Bool[Tensor, "B T"]  #: Tokens that the loss counts.
    group: Int[Tensor, " B"]  #: Prompt group of each response.
    length_limit: int  #: Length limit of a response, the divisor of the loss.
    #: $\sum_v p_v^2(\log p_v + H)$ before each token, for remedies that need it.
    concentration: PerToken | None = None
    #: Log-prob by the engine that sampled, whose numerics differ from the trainer's.
    S_engine: PerToken | None = None
    S_ref: PerToken | None = None  #: Log-prob by a reference model.
    #: Measured influence of each token on entropy and on reward.
    influence: tuple[PerToken, PerToken] | None = None
    seed: int = 0  #: Seed of random choices; in training, the step.
    progress: float = 0.0  #: Fraction of the training that is done, for schedules.

    @cached_property
    def ratio(self) -> PerToken:
        r"""$r = e^{S - S_\text{old}}$, differentiable; 1 off the mask."""
        return token_ratios(self.S, self.S_old, self.mask)

    @cached_property
    def p(self) -> PerToken:
        """Probability of each token, detached; 1 off the mask."""
        return self.S.detach().where(self.mask, 0.0).exp()

    @cached_property
    def mean_entropy(self) -> float:
        """Mean entropy over the counted tokens of the batch, in nats."""
        return float(self.H.detach()[self.mask].mean())

    def need(self, name: str, who: str) -> Any:
        """Return an optional table; raise if this batch does not have it."""
        table = getattr(self, name)
        if table is None:
            raise MissingKey(
                f"expected the table {name!r}, which the intervention {who!r} reads, "
                "got a batch without it; measure it, or use another intervention"
            )
        return table

    def rows(self, chosen: slice) -> "TokenTables":
        """Return the tables of some responses."""
        tables: dict[str, Any] = {
            name: None if (table := getattr(self, name)) is None else table[chosen]
            for name in (
                *("S", "H", "S_old", "A", "mask", "group"),
                *("concentration", "S_engine", "S_ref"),
            )
        }
        if self.influence is not None:
            tables["influence"] = tuple(table[chosen] for table in self.influence)
        return replace(self, **tables)

    @property
    def count(self) -> int:
        """Number of responses."""
        return self.S.shape[0]


def top(score: PerToken, mask: Bool[Tensor, "B T"], count: int) -> Bool[Tensor, "B T"]:
    """Return a mask of the `count` tokens in `mask` of largest score; ties: earlier."""
    masked = score.where(mask, -torch.inf).flatten()
    order = masked.argsort(descending=True, stable=True)[: min(count, int(mask.sum()))]
    chosen = torch.zeros_like(masked, dtype=torch.bool)
    chosen[order] = True
    return chosen.reshape(score.shape)


def quantile(values: Float[Tensor, " K"], level: float) -> Float[Tensor, ""]:
    """Return the quantile of some values, linearly interpolated."""
    # torch.quantile refuses more than 2^24 values, which a large update has.
    place = level * (values.numel() - 1)
    ordered = values.sort().values
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return torch.lerp(low, high, place - math.floor(place))
