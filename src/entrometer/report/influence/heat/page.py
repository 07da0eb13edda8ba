"""The part of a page that shows tokens, with what it takes to colour and ask them."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from entrometer.report.influence.heat.choose import BUDGET, Shown, choose
from entrometer.report.influence.heat.colours import css
from entrometer.report.influence.heat.scale import Scale, scales
from entrometer.report.influence.updates import InfluenceRun, Influences, influences
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
class TokenRun:
    """The updates of one run."""

    name: str
    updates: tuple[Shown, ...]


@dataclass(frozen=True)
class TokenMap:
    """Responses with coloured tokens, and the style and script that they share."""

    where: str
    """Which learning rate influences are for."""
    scales: tuple[Key, ...]
    css: Markup
    script: Markup
    digest: str
    """SHA-256 of the script: the page's policy lets only this script run."""
    runs: tuple[TokenRun, ...]


def token_map(runs: Sequence[InfluenceRun], runs_on_page: int) -> TokenMap | None:
    """Return the coloured tokens of the runs within their share of the page's size."""
    found = influences(runs)
    if not found.updates:
        return None
    script = (Path(__file__).parent / "heat.js").read_text(encoding="utf-8")
    units = found.units | {"S": "nats", "H": "nats"}
    return TokenMap(
        where=found.where,
        scales=tuple(_key(s, units[s.quantity.key]) for s in scales(found)),
        css=Markup(css()),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=_token_runs(found, BUDGET * len(runs) // runs_on_page),
    )


def _token_runs(found: Influences, budget: int) -> tuple[TokenRun, ...]:
    """Return the tokens of each run, as many as fit into a number of bytes."""
    every = scales(found)
    runs: dict[str, list[Shown]] = {}
    for place, update in enumerate(found.updates):
        # What one update leaves is for those after it.
        share = budget // (len(found.updates) - place)
        made = choose(update, every, share)
        budget -= made.bytes
        runs.setdefault(update.subject.run, []).append(made)
    return tuple(TokenRun(name, tuple(updates)) for name, updates in runs.items())


def _key(scale: Scale, unit: str) -> Key:
    return Key(
        key=scale.quantity.key,
        name=scale.quantity.name,
        unit=unit,
        steps=tuple((letter, number(x, 2)) for letter, x in scale.centres()),
    )
