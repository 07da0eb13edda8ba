"""An intervention with its settings: read from text, its loss and its token weights."""

# Axes: B responses, T tokens of a response.

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.errors import InvalidValue, ShapeMismatch, unknown_setting
from entrometer.interventions.registry import Number, Remedy, remedy_of
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import LossCoefficients, dr_grpo_mean, loss_coefficients

MICRO_BATCH = "micro_batch"
"""Name of the setting for the number of responses that statistics are taken over."""


@dataclass(frozen=True)
class Intervention:
    """A registered remedy with all of its settings."""

    name: str
    settings: tuple[tuple[str, Number], ...]  #: Every setting, defaults included.
    micro_batch: int = 0  #: Responses that statistics are over; 0 for all.

    @property
    def remedy(self) -> Remedy:
        """The remedy registered under the name."""
        return remedy_of(self.name)

    def token_losses(self, tables: TokenTables) -> Float[Tensor, "B T"]:
        """Return the loss of each token."""
        function, settings = self.remedy.function, dict(self.settings)
        size = self.micro_batch or tables.count
        parts = []
        for first in range(0, tables.count, size):
            chunk = tables.rows(slice(first, first + size))
            losses = function(chunk, **settings)
            if losses.shape != chunk.S.shape:
                raise ShapeMismatch(
                    f"expected one loss per token from the intervention {self.name!r}, "
                    f"of shape {tuple(chunk.S.shape)}, got {tuple(losses.shape)}; "
                    "return the losses without their sum or mean"
                )
            parts.append(losses)
        return torch.cat(parts)

    def loss(self, tables: TokenTables) -> Float[Tensor, ""]:
        r"""Return $L = \frac{1}{BL}\sum_{ik}\ell_{ik}$, the mean of Dr-GRPO."""
        losses, limit = self.token_losses(tables), tables.length_limit
        return dr_grpo_mean(losses, tables.mask, length_limit=limit)

    def coefficients(self, tables: TokenTables) -> LossCoefficients:
        r"""Return $\alpha = -\partial L/\partial S$ and $\gamma$, the same in $H$."""
        return loss_coefficients(
            lambda S, H: self.loss(replace(tables, S=S, H=H)), tables.S, tables.H
        )

    def adapted(self, mean_entropy: float) -> "Intervention":
        """Return the intervention with its next step's settings, given this entropy."""
        if self.remedy.adapt is None:
            return self
        settings = self.remedy.adapt(dict(self.settings), mean_entropy)
        return replace(self, settings=tuple(settings.items()))

    @property
    def text(self) -> str:
        """Text with every setting, for configs and keys; `intervention` reads it."""
        settings = (*self.settings, (MICRO_BATCH, self.micro_batch))
        return f"{self.name}:{','.join(f'{k}={v!r}' for k, v in settings)}"

    def __str__(self) -> str:
        """Return the text with the settings that differ from their defaults."""
        # All digits are kept, so that equal texts mean equal settings.
        changed = [
            f"{k}={str(v).removesuffix('.0')}"
            for k, v in self.settings
            if v != self.remedy.defaults[k]
        ] + ([f"{MICRO_BATCH}={self.micro_batch}"] if self.micro_batch else [])
        return f"{self.name}:{','.join(changed)}" if changed else self.name


def intervention(text: str) -> Intervention:
    """Return the intervention of a text, `name` or `name:setting=value,...`."""
    name, _, rest = text.partition(":")
    remedy = remedy_of(name)
    settings = {**remedy.defaults, MICRO_BATCH: 0}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in settings:
            raise unknown_setting(key, name, settings)
        settings[key] = _number(text, key, value, type(settings[key]))
        if key != MICRO_BATCH:
            _require_range(text, key, settings[key], remedy)
    micro_batch = int(settings.pop(MICRO_BATCH))
    if micro_batch < 0:
        raise InvalidValue(
            f"expected {MICRO_BATCH!r} of at least 1 in {text!r}, or 0 for the whole "
            f"batch, got {micro_batch}; correct it"
        )
    return Intervention(name, tuple(settings.items()), micro_batch)


def _number(text: str, key: str, value: str, kind: Callable[[float], Number]) -> Number:
    try:
        number = kind(float(value))
        valid = number == float(value)
    except (OverflowError, ValueError):
        valid = False
    if not valid:
        raise InvalidValue(
            f"expected {'a number' if kind is float else 'a whole number'} for {key!r} "
            f"in {text!r}, got {value!r}; write {text.partition(':')[0]}:{key}=1"
        )
    return number


def _require_range(text: str, key: str, value: Number, remedy: Remedy) -> None:
    largest = 1.0 if key in remedy.shares else math.inf
    positive = key in remedy.positive
    # Only upper limits may be infinite: they then never act.
    infinite = math.isinf(value) and key not in ("high", "cap", "most")
    if key in remedy.signed:
        if not math.isfinite(value):
            raise InvalidValue(
                f"expected a finite {key!r} in {text!r}, got {value}; correct it"
            )
    elif not 0 <= value <= largest or infinite or (positive and value == 0):
        wanted = f"{'above' if positive else 'from'} 0{' to 1' if largest == 1 else ''}"
        raise InvalidValue(
            f"expected {key!r} {wanted} in {text!r}, got {value}; correct it"
        )
