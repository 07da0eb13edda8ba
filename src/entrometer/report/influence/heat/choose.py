"""Which responses a page shows in full: those that do most, and some at random."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from entrometer.report.influence.heat.markup import at_least, response
from entrometer.report.influence.heat.scale import Scale
from entrometer.report.influence.updates import Answer, Update
from entrometer.report.text import shown

BUDGET = 4_100_000
"""Bytes of markup for the tokens of all updates of a page."""

_MOST = 0.75
"""Part of the budget for the responses that do most, if not all have room."""

_AROUND = 160
"""Bytes of markup around a prompt."""


@dataclass(frozen=True)
class Prompt:
    """A prompt, once, above its responses."""

    number: int
    text: str
    responses: tuple[Markup, ...]


@dataclass(frozen=True)
class Shown:
    """The responses of an update that have room."""

    name: str
    facts: str
    left_out: str
    """Why some are missing, in a sentence."""
    prompts: tuple[Prompt, ...]
    bytes: int
    """That they take."""


def choose(update: Update, scales: Sequence[Scale], budget: int) -> Shown:
    """Responses by prompt, the one that moves entropy most first."""
    ordered = sorted(update.answers, key=_size, reverse=True)
    most, left = _fill(ordered, update, scales, int(_MOST * budget))
    rest = [a for a in ordered if a.number not in most]
    # The same run gives the same page.
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
        prompts=tuple(Prompt(*key, tuple(own)) for key, own in prompts.items()),
        bytes=budget - left,
    )


def _fill(
    answers: Iterable[Answer],
    update: Update,
    scales: Sequence[Scale],
    budget: int,
    known: Iterable[tuple[int, str]] = (),
) -> tuple[dict[int, Markup], int]:
    """Markup of those that have room, each whole or not at all, and what is left."""
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
    value = abs(answer.does["entropy"].value)
    return value if value == value else -1.0


def _left_out(update: Update, most: int, drawn: int) -> str:
    every = len(update.answers)
    if most + drawn == every:
        return ""
    return (
        f"In full are {most + drawn:,} of {every:,} responses: {most:,} that move "
        f"entropy most, and {drawn:,} at random of the others. "
        f"{every - most - drawn:,} had no room on this page; they are in"
    )
