"""The tokens and responses that take the most entropy, in words."""

import math
from collections.abc import Sequence

from entrometer.report.influence.updates import (
    Answer,
    InfluenceRun,
    Influences,
    Update,
    influences,
)
from entrometer.report.numbers import number, percent, with_error
from entrometer.report.table import Table, table

MOST = 12
"""Of one update; of all together at most three times as many."""

_AROUND = 4
"""Tokens of context on each side."""

_WHO = ("run", "checkpoint", "update")


def draining_tokens(runs: Sequence[InfluenceRun]) -> Table | None:
    """Table of the tokens with the lowest influence on entropy, in their context."""
    found = influences(runs)
    rows = []
    for update in found.updates:
        every = [
            (update.rate * t.entropy, place, answer)
            for answer in update.answers
            for place, t in enumerate(answer.tokens)
            if t.entropy < 0
        ]
        every.sort(key=lambda item: item[0])
        for value, place, answer in every[: _each(found)]:
            token = answer.tokens[place]
            rows.append(
                [
                    *update.subject[:3],
                    context(answer, place),
                    f"{answer.number}, {place + 1}",
                    with_error(value, update.rate * token.entropy_se),
                    _share(value, update.batch["entropy"]),
                    with_error(
                        update.rate * token.reward, update.rate * token.reward_se
                    ),
                    number(token.S),
                    number(token.H),
                    number(token.advantage, 2),
                ]
            )
    if not rows:
        return None
    return table(
        f"The tokens that drain the most entropy, in brackets in their context. "
        f"Influence {found.where}, on entropy in nats a token and on reward a "
        "response, ± one standard error; share of what the batch does to entropy; "
        "log-probability S and entropy H in nats",
        (
            *(*_WHO, "token", "response, place", "on entropy", "share", "on reward"),
            *("S", "H", "advantage"),
        ),
        rows,
        words=4,
    )


def draining_responses(runs: Sequence[InfluenceRun]) -> Table | None:
    """Table of the responses with the lowest influence on entropy."""
    found = influences(runs)
    rows = []
    for update in found.updates:
        every = [a for a in update.answers if a.does["entropy"].value < 0]
        every.sort(key=lambda a: a.does["entropy"].value)
        for answer in every[: _each(found)]:
            rows.append(_response(update, answer))
    if not rows:
        return None
    return table(
        f"The responses that drain the most entropy. Influence {found.where}, summed "
        "over the tokens, on entropy in nats a token and on reward a response, ± one "
        "standard error; share of what the batch does to entropy",
        (
            *(*_WHO, "response", "prompt", "number", "on entropy", "share"),
            *("on reward", "reward", "advantage", "tokens"),
        ),
        rows,
        words=5,
    )


def context(answer: Answer, place: int) -> str:
    """A token in brackets between those around it."""
    texts = [t.text for t in answer.tokens]
    start, end = max(0, place - _AROUND), place + 1 + _AROUND
    before, after = "".join(texts[start:place]), "".join(texts[place + 1 : end])
    return (
        ("…" if start else "")
        + f"{before}[{cut(texts[place], 60)}]{after}"
        + ("…" if end < len(texts) else "")
    )


def cut(text: str, length: int) -> str:
    """The start of a text."""
    return text if len(text) <= length else text[: length - 1] + "…"


def _response(update: Update, answer: Answer) -> Sequence[str]:
    entropy, reward = answer.does["entropy"], answer.does["reward"]
    return [
        *update.subject[:3],
        cut(answer.text, 120),
        cut(answer.prompt, 120),
        str(answer.number),
        with_error(entropy.value, entropy.se),
        _share(entropy.value, update.batch["entropy"]),
        with_error(reward.value, reward.se),
        number(answer.reward),
        number(answer.advantage, 2),
        number(len(answer.tokens)),
    ]


def _each(found: Influences) -> int:
    return max(3, min(MOST, 3 * MOST // len(found.updates)))


def _share(value: float, batch: float) -> str:
    return percent(value / batch if batch else math.nan)
