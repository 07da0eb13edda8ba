"""The part of a page that shows tokens, with what it takes to colour and ask them."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from entrometer.report.heat.choose import Shown, choose
from entrometer.report.heat.colours import css
from entrometer.report.heat.scale import Scale, scales
from entrometer.report.influence import Influences
from entrometer.report.numbers import number


@dataclass(frozen=True)
class Key:
    """What the colours of a quantity mean."""

    key: str
    name: str
    unit: str
    steps: tuple[tuple[str, str], ...]
    """Letter and value of each class."""


@dataclass(frozen=True)
class Heat:
    """What all tokens of a page share."""

    where: str
    """Which learning rate influences are for."""
    scales: tuple[Key, ...]
    css: Markup
    script: Markup
    digest: str
    """Of the script, by which alone it may run."""


@dataclass(frozen=True)
class HeatedRun:
    """The updates of one run."""

    name: str
    updates: tuple[Shown, ...]


def heat(found: Influences) -> Heat:
    """Style, script and keys."""
    script = (Path(__file__).parent / "heat.js").read_text(encoding="utf-8")
    units = found.units | {"S": "nats", "H": "nats"}
    return Heat(
        where=found.where,
        scales=tuple(_key(s, units[s.quantity.key]) for s in scales(found)),
        css=Markup(css()),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def heated(found: Influences, budget: int) -> list[HeatedRun]:
    """The tokens of each run, as many as the budget has room for."""
    if not found.updates:
        return []
    every = scales(found)
    runs: dict[str, list[Shown]] = {}
    for place, update in enumerate(found.updates):
        # What one update leaves is for those after it.
        share = budget // (len(found.updates) - place)
        made = choose(update, every, share)
        budget -= made.bytes
        runs.setdefault(update.subject.run, []).append(made)
    return [HeatedRun(name, tuple(updates)) for name, updates in runs.items()]


def _key(scale: Scale, unit: str) -> Key:
    return Key(
        key=scale.quantity.key,
        name=scale.quantity.name,
        unit=unit,
        steps=tuple((letter, number(x, 2)) for letter, x in scale.centres()),
    )
