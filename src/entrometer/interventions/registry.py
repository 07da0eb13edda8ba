"""Interventions by name: those that are here, and those that a user adds."""

from collections.abc import Callable
from typing import TypeVar

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.interventions.remedy import Remedy, TokenLosses, require_sound
from entrometer.runs.content import is_users

Function = TypeVar("Function", bound=TokenLosses)

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
        add_remedy(name, remedy)
        return function

    return add


def add_remedy(name: str, remedy: Remedy) -> None:
    """Let `intervention` find a remedy by `name`."""
    known = _REMEDIES.get(name)
    own = _definition(remedy.function)
    # The same definition again is a notebook's cell that was run again.
    if known is not None and _definition(known.function) != own:
        raise InvalidValue(
            f"expected a name that is free, got {name!r}, which is "
            f"{'.'.join(_definition(known.function))}; choose another"
        )
    require_sound(name, remedy)
    _REMEDIES[name] = remedy


def user_remedies() -> dict[str, Remedy]:
    """Return the remedies that a user registered, by name."""
    return {n: remedy for n, remedy in _REMEDIES.items() if is_users(remedy.function)}


def remedy_of(name: str) -> Remedy:
    """Return what was registered under `name`."""
    if name not in _REMEDIES:
        raise MissingKey(
            f"expected an intervention of {intervention_names()}, got {name!r}; name "
            f"one of them, or register it.{nearest_name(name, _REMEDIES)}"
        )
    return _REMEDIES[name]


def intervention_names() -> list[str]:
    """Return the names that `intervention` knows, sorted."""
    return sorted(_REMEDIES)


def _definition(function: TokenLosses) -> tuple[str, str]:
    # Code that was executed from a string has no module.
    return str(function.__module__), function.__qualname__
