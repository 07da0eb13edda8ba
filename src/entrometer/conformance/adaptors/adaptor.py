"""What an adaptor gets and returns; running it on a batch."""

# Axes: B responses, T tokens of a response.

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

Settings = dict[str, float]
"""Settings of our loss, by name."""

Config = dict[str, Any]
"""Settings of a framework's loss, by the framework's names."""


@dataclass(frozen=True, eq=False)
class Part:
    """Tables of a micro-batch, finite off the mask too, and totals of the batch."""

    S: Tensor  #: (B, T) Log-probs; differentiable.
    H: Tensor  #: (B, T) Entropies; differentiable.
    S_old: Tensor  #: (B, T) Log-probs by the policy that sampled.
    A: Tensor  #: (B, T) Advantages: for GRPO divided by the group's deviation.
    mask: Tensor  #: (B, T) Tokens that the loss counts.
    S_engine: Tensor  #: (B, T) Log-probs by the engine that sampled.
    S_ref: Tensor  #: (B, T) Log-probs by a reference model.
    length_limit: int
    tokens: int  #: Counted tokens of the whole batch.
    responses: int  #: Responses of the whole batch.
    whole: Mapping[str, Tensor]  #: Tables of the whole batch, by name.
    rows: slice  #: The responses of this micro-batch in the whole batch.

    @property
    def rewards(self) -> Tensor:
        """Rewards of the whole batch minus the mean of their group, of shape (B, 1)."""
        return self.whole["A"][:, :1].clone()

    @property
    def weight(self) -> float:
        """Share of the batch's responses that are in this micro-batch."""
        return len(self.S) / self.responses


class Adaptor(Protocol):
    """An adaptor's module."""

    DISTRIBUTION: str  #: Name of the framework on the package index.
    #: Maps settings of ours to the framework's, by the name of our loss.
    CONFIGS: Mapping[str, Callable[[Settings], Config]]
    #: Why a loss is computed in float32 whatever its inputs, by the name of ours.
    FLOAT32: Mapping[str, str]

    def prepare(self, site: Path) -> None:
        """Import the framework from `site`, which is on the path."""

    def loss(self, config: Config, part: Part) -> Tensor:
        """Return the loss of a micro-batch; those of all micro-batches add up."""


def coefficients(
    adaptor: Adaptor, config: Config, case: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return `alpha` and `gamma` (B, T) of the framework's loss on a batch."""
    S = case["S"].clone().requires_grad_()
    H = case["H"].clone().requires_grad_()
    total = S.new_zeros(())
    # A framework may draw at random, as for Clip-Cov.
    torch.manual_seed(0)
    for part in parts(S, H, case):
        total = total + adaptor.loss(dict(config), part)
    dS, dH = torch.autograd.grad(
        total, (S, H), allow_unused=True, materialize_grads=True
    )
    return {"alpha": -dS, "gamma": -dH}


def with_gradient_of(entropy: Callable[[Tensor], Tensor], H: Tensor) -> Tensor:
    """Return entropies, detached if the framework's own entropy has no gradient.

    Its loss gets a table here; in training it gets what `entropy` makes of logits.
    """
    logits = torch.zeros(2, 3, requires_grad=True)
    return H if entropy(logits).requires_grad else H.detach()


def parts(S: Tensor, H: Tensor, case: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the micro-batches of a case."""
    count = len(S)
    size = case["micro_batch"] or count
    for first in range(0, count, size):
        rows = slice(first, first + size)
        names = ("S_old", "mask", "S_engine", "S_ref")
        A = case["A_std"] if case["loss"] == "grpo" else case["A"]
        yield Part(
            S=S[rows],
            H=H[rows],
            A=A[rows],
            **{name: case[name][rows] for name in names},
            length_limit=case["length_limit"],
            tokens=int(case["mask"].sum()),
            responses=count,
            whole={name: case[name] for name in (*names, "A", "group")},
            rows=rows,
        )
