"""Interventions by name: those that are here, and those that a user adds."""

# Axes: B responses, T tokens of a response.

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch, nearest_name
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import LossCoefficients, dr_grpo_mean, loss_coefficients

TokenLosses = Callable[..., Tensor]
"""Maps `TokenTables`, and settings by keyword, to the loss of each token (B, T)."""

Number = float | int
"""A setting: a count is whole, and stays so."""

Function = TypeVar("Function", bound=TokenLosses)

MICRO_BATCH = "micro_batch"
"""Setting of every intervention: responses that its statistics are taken over."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """What the registry knows of an intervention."""

    function: TokenLosses
    by_token: bool
    """Whether the loss of a token depends on that token alone."""

    on_policy: bool
    """Whether it differs from plain where every ratio is 1."""

    strength: str | None
    """The setting that a comparison sweeps."""

    strengths: tuple[float, ...]
    """Its values, weak to strong; the default is among them."""

    adapt: Callable[[dict[str, float], float], dict[str, float]] | None
    """Settings of the next step from those of this one and the mean entropy."""

    scheduled: bool
    """Whether it follows the progress of the training."""

    needs: tuple[str, ...]
    """Tables beyond S, H, S_old and A."""

    trl: str | None
    """Lines of a TRL config, with settings in braces; None where TRL has none."""

    verl: str | None
    """The same of verl."""

    differs: str
    """What those lines do otherwise; empty where they are the same."""

    source: str
    """Where it was published."""

    shares: tuple[str, ...]
    """Settings from 0 to 1."""

    positive: tuple[str, ...]
    """Settings above 0; all others are from 0 on."""

    @property
    def code(self) -> str:
        """What tells a user's function from an edited one; empty for those here."""
        if self.function.__module__.startswith("entrometer."):
            return ""
        try:
            text = inspect.getsource(self.function)
        except OSError:
            text = self.function.__code__.co_code.hex()
        return sha256(text.encode()).hexdigest()

    @property
    def defaults(self) -> dict[str, Number]:
        """Settings and their defaults."""
        return _defaults(self.function)


_REMEDIES: dict[str, Remedy] = {}


def register(
    name: str,
    *,
    by_token: bool = False,
    on_policy: bool = True,
    strength: str | None = None,
    strengths: tuple[float, ...] = (),
    adapt: Callable[[dict[str, float], float], dict[str, float]] | None = None,
    scheduled: bool = False,
    needs: tuple[str, ...] = (),
    trl: str | None = None,
    verl: str | None = None,
    differs: str = "",
    source: str = "",
    shares: tuple[str, ...] = (),
    positive: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Return a decorator that lets `intervention` find a function by `name`.

    ::

        @register("half", by_token=True)
        def half(tables: TokenTables, *, weight: float = 0.5) -> Tensor:
            return weight * dr_grpo(tables)

    Its keyword arguments are the settings; each has a number for a default. What the
    others mean is said by `Remedy`.
    """

    def add(function: Function) -> Function:
        known = _REMEDIES.get(name)
        # The same definition again is a notebook's cell that was run again.
        if known is not None and _definition(known.function) != _definition(function):
            raise InvalidValue(
                f"expected a name that is free, got {name!r}, which is "
                f"{'.'.join(_definition(known.function))}; choose another"
            )
        remedy = Remedy(
            function=function,
            by_token=by_token,
            on_policy=on_policy,
            strength=strength,
            strengths=strengths,
            adapt=adapt,
            scheduled=scheduled,
            needs=needs,
            trl=trl,
            verl=verl,
            differs=differs,
            source=source,
            shares=shares,
            positive=positive,
        )
        _require_sound(name, remedy)
        _REMEDIES[name] = remedy
        return function

    return add


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
        return _REMEDIES[self.name]

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


def intervention(text: str) -> Intervention:
    """Read `name` or `name:setting=value,setting=value`."""
    name, _, rest = text.partition(":")
    if name not in _REMEDIES:
        raise MissingKey(
            f"expected an intervention of {intervention_names()}, got {name!r}; name "
            f"one of them, or register it.{nearest_name(name, _REMEDIES)}"
        )
    settings = {**_REMEDIES[name].defaults, MICRO_BATCH: 0}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in settings:
            raise MissingKey(
                f"expected settings of {name!r}, of {list(settings)}, got {key!r}."
                f"{nearest_name(key, settings)}"
            )
        settings[key] = _number(text, key, value, type(settings[key]))
        if key != MICRO_BATCH:
            _require_range(text, key, settings[key], _REMEDIES[name])
    micro_batch = int(settings.pop(MICRO_BATCH))
    if micro_batch < 0:
        raise InvalidValue(
            f"expected a {MICRO_BATCH!r} of at least 1 in {text!r}, or 0 for the whole "
            f"batch, got {micro_batch}; correct it"
        )
    return Intervention(name, tuple(settings.items()), micro_batch)


def intervention_names() -> list[str]:
    """Return the names that `intervention` knows, sorted."""
    return sorted(_REMEDIES)


def _shortest(value: Number) -> str:
    # Every digit: what is read back is equal, and equal texts mean equal settings.
    return str(value).removesuffix(".0")


def _number(text: str, key: str, value: str, kind: Callable[[float], Number]) -> Number:
    try:
        number = kind(float(value))
        sound = number == float(value)
    except (OverflowError, ValueError):
        sound = False
    if not sound:
        raise InvalidValue(
            f"expected {'a number' if kind is float else 'a whole number'} for {key!r} "
            f"in {text!r}, got {value!r}; write {text.partition(':')[0]}:{key}=1"
        )
    return number


def _require_range(text: str, key: str, value: Number, remedy: Remedy) -> None:
    most = 1.0 if key in remedy.shares else math.inf
    above = key in remedy.positive
    # A clip may be infinitely wide.
    endless = math.isinf(value) and key != "high"
    if not 0 <= value <= most or endless or (above and value == 0):
        wanted = "above 0" if above else "from 0"
        wanted += " to 1" if most == 1 else ""
        raise InvalidValue(
            f"expected {key!r} {wanted} in {text!r}, got {value}; correct it"
        )


def _definition(function: TokenLosses) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _defaults(function: TokenLosses) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {p.name: p.default for p in parameters}


def _require_sound(name: str, remedy: Remedy) -> None:
    if not name or set(name) & set(":,= "):
        raise InvalidValue(
            f"expected a name without colon, comma, equals sign or space, got {name!r};"
            " settings follow a name after a colon"
        )
    settings = _defaults(remedy.function)
    wrong = [k for k, v in settings.items() if not isinstance(v, int | float)]
    if wrong:
        raise InvalidValue(
            f"expected a number as the default of each setting of {name!r}, got none "
            f"for {wrong}; give one"
        )
    if remedy.strength is not None and (
        remedy.strength not in settings
        or settings[remedy.strength] not in remedy.strengths
    ):
        raise InvalidValue(
            f"expected the strength of {name!r} to be one of its settings "
            f"{list(settings)}, with its default among {remedy.strengths}, got "
            f"{remedy.strength!r}; correct it"
        )
