"""An intervention with its settings: a loss, and its pull on every token."""

# Axes: B responses, T tokens of a response.

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.errors import ShapeMismatch
from entrometer.interventions.registry import remedy_of
from entrometer.interventions.remedy import Number, Remedy
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import LossCoefficients, dr_grpo_mean, loss_coefficients

MICRO_BATCH = "micro_batch"
"""Setting of every intervention: responses that its statistics are taken over."""


@dataclass(frozen=True)
class Intervention:
    """A registered function with all its settings: what a config and a key hold."""

    name: str
    settings: tuple[tuple[str, Number], ...]
    """Every one of them, defaults too."""

    micro_batch: int = 0
    """Responses that statistics are taken over; 0 for the whole batch."""

    @property
    def remedy(self) -> Remedy:
        """What the registry knows of it."""
        return remedy_of(self.name)

    def token_losses(self, tables: TokenTables) -> Float[Tensor, "B T"]:
        """Loss of each token."""
        function, settings = self.remedy.function, dict(self.settings)
        size = self.micro_batch or tables.count
        parts = []
        for first in range(0, tables.count, size):
            own = tables.rows(slice(first, first + size))
            losses = function(own, **settings)
            if losses.shape != own.S.shape:
                raise ShapeMismatch(
                    f"expected a loss a token from the intervention {self.name!r}, of "
                    f"shape {tuple(own.S.shape)}, got {tuple(losses.shape)}; leave the "
                    "sum to the mean of Dr-GRPO"
                )
            parts.append(losses)
        return torch.cat(parts)

    def loss(self, tables: TokenTables) -> Float[Tensor, ""]:
        r"""$L = \frac{1}{BL}\sum_{ik}\ell_{ik}$, the mean of Dr-GRPO."""
        return dr_grpo_mean(
            self.token_losses(tables), tables.mask, length_limit=tables.length_limit
        )

    def coefficients(self, tables: TokenTables) -> LossCoefficients:
        r"""$\alpha = -\partial L/\partial S$ and $\gamma = -\partial L/\partial H$."""
        return loss_coefficients(
            lambda S, H: self.loss(replace(tables, S=S, H=H)), tables.S, tables.H
        )

    def adapted(self, mean_entropy: float) -> "Intervention":
        """The one of the next step."""
        if self.remedy.adapt is None:
            return self
        settings = self.remedy.adapt(dict(self.settings), mean_entropy)
        return Intervention(self.name, tuple(settings.items()), self.micro_batch)

    @property
    def text(self) -> str:
        """What `intervention` reads back, with every setting: for configs and keys."""
        every = (*self.settings, (MICRO_BATCH, self.micro_batch))
        own = [f"{k}={v!r}" for k, v in every]
        return f"{self.name}:{','.join(own)}"

    def __str__(self) -> str:
        """The same for people, with what is not the default."""
        own = [
            f"{k}={_shortest(v)}"
            for k, v in self.settings
            if v != self.remedy.defaults[k]
        ] + ([f"{MICRO_BATCH}={self.micro_batch}"] if self.micro_batch else [])
        return f"{self.name}:{','.join(own)}" if own else self.name


def _shortest(value: Number) -> str:
    # Every digit: what is read back is equal, and equal texts mean equal settings.
    return str(value).removesuffix(".0")
