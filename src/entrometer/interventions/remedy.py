"""What is known of an intervention: its function, and how that may be used."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.runs.content import code_key

TokenLosses = Callable[..., Tensor]
"""Maps `TokenTables`, and settings by keyword, to the loss of each token (B, T)."""

Number = float | int
"""A setting: a count is whole, and stays so."""


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
        """Key of a user's code, another for an edited one; empty for those here."""
        return code_key(self.function, self.adapt)

    @property
    def defaults(self) -> dict[str, Number]:
        """Settings and their defaults."""
        return _defaults(self.function)


def require_sound(name: str, remedy: Remedy) -> None:
    """A name that can be read, numbers as defaults, a strength that is a setting."""
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


def _defaults(function: TokenLosses) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {p.name: p.default for p in parameters}
