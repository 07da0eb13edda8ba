"""A row for every token and for every response of an update."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from entrometer.experiments.influence.tables import Updated
from entrometer.runs.tables.influence import Response, Token


def named(moved: Updated) -> dict[str, Any]:
    """The columns that name an update."""
    return {"checkpoint": moved.point.name, "update": moved.plan.name}


def tokens(moved: Updated) -> Iterator[Token]:
    """A row for every token, in the order of the responses."""
    r, words = moved.responses, moved.words
    entropy, reward = (
        moved.influence(moved.contributions(objective))
        for objective in ("entropy", "reward")
    )
    columns: dict[str, Any] = {
        "response": r.spread(np.arange(r.count)),
        "group": r.spread(moved.group),
        "position": r.position - 1,
        "token": moved.tokens,
        "advantage": moved.advantage,
        "alpha": moved.alpha,
        "S": moved.here.S,
        "H": moved.here.H,
        "entropy": entropy.value,
        "entropy_se": entropy.standard_error,
        "reward": reward.value,
        "reward_se": reward.standard_error,
    }
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        own = dict(zip(columns, values, strict=True))
        token = own["token"]
        text, kind = words.tokens[token], words.kind(token)
        yield Token(**named(moved), text=text, kind=kind, **own)


def responses(moved: Updated) -> Iterator[Response]:
    """A row for every response, in words."""
    for i in range(moved.responses.count):
        yield Response(
            **named(moved),
            response=i,
            group=int(moved.group[i]),
            prompt_text=moved.words.prompts[i],
            text=moved.words.responses[i],
            reward=float(moved.rollouts.reward[i]),
        )
