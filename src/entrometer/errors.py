"""Root of all errors that Entrometer raises, and checks that raise them.

Each class is also a standard type, so `except ValueError` and `except EntrometerError`
both work. A message says what was expected, what was got and what to do.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from math import isfinite
from reprlib import repr as shown
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import urlsplit

MOST = 1_000_000
"""Largest number of problems or prompts: planning makes a list of them."""


class EntrometerError(Exception):
    """Base class of every error that Entrometer raises."""


class ShapeMismatch(EntrometerError, ValueError):
    """Arrays whose shapes do not fit together, as of two batches or two models."""


class InvalidValue(EntrometerError, ValueError):
    """A value out of range, of the wrong type, or that does not fit the others."""


class MissingKey(EntrometerError, KeyError):
    """A name that is unknown or missing, as of a table, a column or a parameter."""

    def __str__(self) -> str:
        """Return the message as written."""
        # KeyError shows the repr of its argument, which suits a key, not a sentence.
        return Exception.__str__(self)


def require_types(settings: object, where: str = "") -> None:
    """Raise `InvalidValue` if a field of a dataclass has another type than declared.

    Settings come from JSON and from callers; a wrong type would otherwise raise a
    `TypeError` in unrelated code. Numbers must be finite. `where` starts the message.
    """
    assert is_dataclass(settings)
    hints = get_type_hints(type(settings))
    for name in (f.name for f in fields(settings)):
        value = getattr(settings, name)
        if not _is_a(value, hints[name]):
            kind = getattr(hints[name], "__name__", hints[name])
            raise InvalidValue(
                f"{where}expected {name} to be of type {kind} and finite, got "
                f"{shown(value)}; change it"
            )


def _is_a(value: object, kind: Any) -> bool:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is_a(value, inside[0])
    if origin is Literal:
        return value in inside
    if origin in (Union, UnionType):
        return any(_is_a(value, member) for member in inside)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inside[-1] is Ellipsis:
            return all(_is_a(x, inside[0]) for x in value)
        return len(value) == len(inside) and all(map(_is_a, value, inside))
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, int | float) and isfinite(value)
    return isinstance(value, kind)


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest known name, "" if none is close.

    The leading space lets a message end with it whether or not there is a match.
    """
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def require_address(url: str) -> None:
    """Raise unless `url` is an http(s) address without a user or a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValue(
            f"expected an address such as http://127.0.0.1:8000, got {url!r}; write "
            "it with http:// or https:// and a host"
        )
    if parts.username or parts.password:
        # Addresses are stored with a run's settings.
        raise InvalidValue(
            "expected an address without a user or password, got one with it; set "
            "VLLM_API_KEY instead"
        )


def unknown_intervention(name: str, known: Iterable[str]) -> MissingKey:
    """Return the error for an intervention that is not among the known ones."""
    return MissingKey(
        f"expected an intervention of {sorted(known)}, got {name!r}; name one of them, "
        f"or register it.{nearest_name(name, known)}"
    )


def unknown_setting(key: str, name: str, settings: Iterable[str]) -> MissingKey:
    """Return the error for a setting that the intervention `name` lacks."""
    return MissingKey(
        f"expected settings of {name!r}, of {list(settings)}, got {key!r}; name one of "
        f"them.{nearest_name(key, settings)}"
    )
