"""Interventions read from text: `name:setting=value`."""

import math
from collections.abc import Callable

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.interventions.loss import MICRO_BATCH, Intervention
from entrometer.interventions.registry import remedy_of
from entrometer.interventions.remedy import Number, Remedy


def intervention(text: str) -> Intervention:
    """Read `name` or `name:setting=value,setting=value`."""
    name, _, rest = text.partition(":")
    remedy = remedy_of(name)
    settings = {**remedy.defaults, MICRO_BATCH: 0}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in settings:
            raise MissingKey(
                f"expected settings of {name!r}, of {list(settings)}, got {key!r}."
                f"{nearest_name(key, settings)}"
            )
        settings[key] = _number(text, key, value, type(settings[key]))
        if key != MICRO_BATCH:
            _require_range(text, key, settings[key], remedy)
    micro_batch = int(settings.pop(MICRO_BATCH))
    if micro_batch < 0:
        raise InvalidValue(
            f"expected a {MICRO_BATCH!r} of at least 1 in {text!r}, or 0 for the whole "
            f"batch, got {micro_batch}; correct it"
        )
    return Intervention(name, tuple(settings.items()), micro_batch)


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
