"""The part of a page that shows tokens: which responses, in which colours."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from entrometer.report.influence.colours import Scale, css, scales
from entrometer.report.influence.markup import at_least, response
from entrometer.report.influence.updates import (
    Answer,
    InfluenceRun,
    Influences,
    Update,
    influences,
)
from entrometer.report.measure.samples import Prompt
from entrometer.report.numbers import number
from entrometer.report.text import shown

BUDGET = 4_100_000
"""Bytes of markup for the tokens of all updates of a page."""

_MOST = 0.75
"""Share of the budget for the most influential responses, if not all have room."""

_AROUND = 160
"""Bytes of markup around a prompt."""


@dataclass(frozen=True)
class Shown:
    """The responses of an update that have room."""

    name: str
    facts: str
    left_out: str
    """A sentence on why some responses are missing."""
    prompts: tuple[Prompt, ...]
    bytes: int
    """Bytes of markup that they take."""


@dataclass(frozen=True)
class Key:
    """The colour key of a quantity."""

    key: str
    name: str
    unit: str
    steps: tuple[tuple[str, str], ...]
    """Letter and value of each colour."""


@dataclass(frozen=True)
class TokenMap:
    """Responses with coloured tokens, and the style and script that they share."""

    where: str
    """Which learning rate the influences are for."""
    scales: tuple[Key, ...]
    css: Markup
    script: Markup
    digest: str
    """SHA-256 of the script: the page's policy lets only this script run."""
    runs: dict[str, list[Shown]]
    """Updates by run."""


def token_map(runs: Sequence[InfluenceRun], runs_on_page: int) -> TokenMap | None:
    """Return the coloured tokens of the runs within their share of the page's size."""
    influence = influences(runs)
    if not influence.updates:
        return None
    script = (Path(__file__).parent / "heat.js").read_text(encoding="utf-8")
    units = influence.rates.units | {"S": "nats", "H": "nats"}
    return TokenMap(
        where=influence.rates.where,
        scales=tuple(_colour_key(s, units[s.quantity.key]) for s in scales(influence)),
        css=Markup(css()),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=_token_runs(influence, BUDGET * len(runs) // runs_on_page),
    )


def _token_runs(influence: Influences, budget: int) -> dict[str, list[Shown]]:
    """Return the tokens of each run, as many as fit into a number of bytes."""
    every = scales(influence)
    runs: dict[str, list[Shown]] = {}
    for place, update in enumerate(influence.updates):
        # Bytes that one update does not need are left to those after it.
        share = budget // (len(influence.updates) - place)
        made = choose(update, every, share)
        budget -= made.bytes
        runs.setdefault(update.subject.run, []).append(made)
    return runs


def _colour_key(scale: Scale, unit: str) -> Key:
    return Key(
        key=scale.quantity.key,
        name=scale.quantity.name,
        unit=unit,
        steps=tuple((letter, number(x, 2)) for letter, x in scale.centres()),
    )


def choose(update: Update, scales: Sequence[Scale], budget: int) -> Shown:
    """Return responses by prompt, the one that moves entropy most first."""
    ordered = sorted(update.answers, key=_size, reverse=True)
    most, left = _fill(ordered, update, scales, int(_MOST * budget))
    rest = [a for a in ordered if a.number not in most]
    # A fixed seed: the same run must give the same page.
    shuffled = np.random.default_rng(0).permutation(len(rest)).tolist()
    left += budget - int(_MOST * budget)
    known = {_key(a) for a in ordered if a.number in most}
    drawn, left = _fill((rest[i] for i in shuffled), update, scales, left, known)
    bodies = most | drawn
    prompts: dict[tuple[int, str], list[Markup]] = {}
    for answer in ordered:
        if answer.number in bodies:
            prompts.setdefault(_key(answer), []).append(bodies[answer.number])
    tokens = sum(len(a.tokens) for a in update.answers)
    return Shown(
        name=update.name,
        facts=f"{len(update.answers):,} responses, {tokens:,} tokens",
        left_out=_left_out(update, len(most), len(drawn)),
        prompts=tuple(Prompt(*key, tuple(subset)) for key, subset in prompts.items()),
        bytes=budget - left,
    )


def _fill(
    answers: Iterable[Answer],
    update: Update,
    scales: Sequence[Scale],
    budget: int,
    known: Iterable[tuple[int, str]] = (),
) -> tuple[dict[int, Markup], int]:
    """Return the markup of responses that fit, each whole, and the bytes left."""
    made: dict[int, Markup] = {}
    prompts = set(known)
    for answer in answers:
        if at_least(answer) > budget:
            continue
        body = response(answer, update.rate, scales)
        cost = len(body.encode())
        if _key(answer) not in prompts:
            cost += _AROUND + len(shown(answer.prompt).encode())
        if cost <= budget:
            budget -= cost
            prompts.add(_key(answer))
            made[answer.number] = body
    return made, budget


def _key(answer: Answer) -> tuple[int, str]:
    return answer.group, answer.prompt


def _size(answer: Answer) -> float:
    value = abs(answer.influence["entropy"].value)
    return value if value == value else -1.0


def _left_out(update: Update, most: int, drawn: int) -> str:
    every = len(update.answers)
    if most + drawn == every:
        return ""
    return (
        f"Shown are {most + drawn:,} of {every:,} responses: the {most:,} that move "
        f"entropy most, and {drawn:,} of the others at random. The remaining "
        f"{every - most - drawn:,} did not fit on this page; they are in"
    )
