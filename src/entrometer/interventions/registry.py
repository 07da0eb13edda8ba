"""Interventions by name: the remedies of this package, and those a user registers."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from entrometer.errors import InvalidValue, unknown_intervention
from entrometer.runs.content import code_key, is_users

TokenLosses = Callable[..., Tensor]
"""Maps `TokenTables`, and settings by keyword, to the loss of each token (B, T)."""

Function = TypeVar("Function", bound=TokenLosses)

Number = float | int  #: A setting; a whole number stays whole.


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A registered loss function, and what comparisons and training must know of it."""

    function: TokenLosses
    by_token: bool = False  #: Whether the loss of a token depends on that token alone.
    whole: bool = False  #: Whether it is a loss of its own, not a change of another.
    on_policy: bool = True  #: Whether it differs from Dr-GRPO where every ratio is 1.
    strength: str | None = None  #: Name of the setting that a comparison sweeps.
    strengths: tuple[float, ...] = ()  #: Values of the sweep, weak to strong.
    #: Returns the next step's settings from this step's and the mean entropy.
    adapt: Callable[[dict[str, float], float], dict[str, float]] | None = None
    #: Whether one step says nothing of it: its strength follows from earlier steps.
    over_steps: bool = False
    scheduled: bool = False  #: Whether the loss depends on the training progress.
    needs: tuple[str, ...] = ()  #: Optional tables of `TokenTables` that it reads.
    #: Arguments of TRL's `GRPOConfig`, settings in braces; None if TRL lacks it.
    trl: str | None = None
    #: Overrides of verl's config, settings in braces; None if verl lacks it.
    verl: str | None = None
    differs: str = ""  #: How the loss of TRL or verl differs with those settings.
    source: str = ""  #: Publication.
    shares: tuple[str, ...] = ()  #: Settings that lie between 0 and 1.
    positive: tuple[str, ...] = ()  #: Settings above 0; others are at least 0.
    signed: tuple[str, ...] = ()  #: Settings that may be below 0.

    @property
    def code(self) -> str:
        """Key of user code, which changes with the code; empty for this package's."""
        return code_key(self.function, self.adapt)

    @property
    def defaults(self) -> dict[str, Number]:
        """Settings and their defaults: the keyword arguments of the function."""
        return _defaults(self.function)

    def lacks(self, available: Collection[str]) -> list[str]:
        """Return the optional tables that it reads and that are not available."""
        return [name for name in self.needs if name not in available]


_REMEDIES: dict[str, Remedy] = {}


def register(name: str, **about: Any) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as the intervention `name`.

    ::

        @register("half", by_token=True)
        def half(tables: TokenTables, *, weight: float = 0.5) -> Tensor:
            return weight * dr_grpo(tables)

    The keyword arguments of the function are the settings; each has a number as its
    default. `about` are fields of `Remedy`.
    """

    def add(function: Function) -> Function:
        add_remedy(name, Remedy(function=function, **about))
        return function

    return add


def add_remedy(name: str, remedy: Remedy) -> None:
    """Register a remedy as the intervention `name`."""
    known = _REMEDIES.get(name)
    # The same definition again is a notebook cell that was run again.
    if known and _definition(known.function) != _definition(remedy.function):
        raise InvalidValue(
            f"expected a free name, got {name!r}, which has been registered for "
            f"{'.'.join(_definition(known.function))}; choose another"
        )
    _require_usable(name, remedy)
    _REMEDIES[name] = remedy


def _require_usable(name: str, remedy: Remedy) -> None:
    if not name or set(name) & set(":,= "):
        raise InvalidValue(
            f"expected an intervention's name without `:,=` or space, got {name!r}; "
            "rename it: settings follow as `name:setting=value`"
        )
    settings = _defaults(remedy.function)
    wrong = [k for k, v in settings.items() if not isinstance(v, int | float)]
    if wrong:
        raise InvalidValue(
            f"expected a number as the default of each setting of {name!r}, got no "
            f"number for {wrong}; give it one"
        )
    strength = remedy.strength
    if strength is not None and settings.get(strength) not in remedy.strengths:
        raise InvalidValue(
            f"expected the strength of {name!r} to be one of its settings "
            f"{list(settings)}, with its default among {remedy.strengths}, got "
            f"{strength!r}; correct `strength` or `strengths`"
        )


def _defaults(function: TokenLosses) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {p.name: p.default for p in parameters}


def user_remedies() -> dict[str, Remedy]:
    """Return by name the remedies whose loss function is not of this package."""
    return {n: remedy for n, remedy in _REMEDIES.items() if is_users(remedy.function)}


def built_in_functions() -> dict[str, TokenLosses]:
    """Return the functions of this package's remedies, by the name of the function."""
    functions = (remedy.function for remedy in _REMEDIES.values())
    return {f.__name__: f for f in functions if not is_users(f)}


def remedy_of(name: str) -> Remedy:
    """Return the remedy registered as `name`."""
    if name not in _REMEDIES:
        raise unknown_intervention(name, _REMEDIES)
    return _REMEDIES[name]


def intervention_names() -> list[str]:
    """Return the names of all registered interventions, sorted."""
    return sorted(_REMEDIES)


def _definition(function: TokenLosses) -> tuple[str, str]:
    # Code executed from a string has no module.
    return str(function.__module__), function.__qualname__
