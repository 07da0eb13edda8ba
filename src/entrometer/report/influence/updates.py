"""Updates of influence runs: tokens by response, at the training's learning rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from entrometer.report.kinds import FinishedRun
from entrometer.report.subjects import Subject, tell_apart
from entrometer.runs.tables.influence import (
    Balance,
    Diagonal,
    Group,
    InfluenceTables,
    Removal,
    Score,
    Token,
)

InfluenceRun = FinishedRun[InfluenceTables]
OBJECTIVES = ("entropy", "reward")


class Part(NamedTuple):
    """A part of a change, with its standard error and 95% interval."""

    value: float
    se: float
    low: float
    high: float

    def times(self, rate: float) -> "Part":
        """At a learning rate."""
        return Part(*(rate * x for x in self))


@dataclass(frozen=True)
class Answer:
    """A response of an update and what all of its tokens do together."""

    number: int
    group: int
    prompt: str
    text: str
    reward: float
    """That it got."""
    advantage: float
    tokens: tuple[Token, ...]
    does: dict[str, Part]
    """By objective."""


@dataclass(frozen=True)
class Update:
    """One update of one checkpoint."""

    subject: Subject
    name: str
    """Short, and no other update's."""
    rate: float
    """What an influence is multiplied by: the training's learning rate, or 1."""
    answers: tuple[Answer, ...]
    batch: dict[str, float]
    """What all tokens do together, by objective."""


@dataclass(frozen=True)
class Influences:
    """All updates of the runs of a page."""

    updates: tuple[Update, ...]
    at_training: bool
    """Whether every learning rate is known; if not, all is for a rate of 1."""

    @property
    def units(self) -> dict[str, str]:
        """Of each objective."""
        return influence_units(self.at_training)

    @property
    def where(self) -> str:
        """Which learning rate a value is for, in words."""
        if self.at_training:
            return "at the learning rate of training"
        return "per unit learning rate"


Row = Token | Balance | Group | Score | Diagonal | Removal
"""A row of an update."""


def subject(run: InfluenceRun, row: Row) -> Subject:
    """What a row of a run is about."""
    return Subject(run.name, row.checkpoint, row.update, "")


def rates(runs: Sequence[InfluenceRun]) -> tuple[dict[Subject, float], bool]:
    """The learning rate of each update, and whether all are known; else all are 1."""
    found = {
        subject(run, row): row.learning_rate
        for run in runs
        for row in run.tables.balance
    }
    subjects = dict.fromkeys(subject(run, t) for run in runs for t in run.tables.tokens)
    known = all(found.get(s, math.nan) > 0 for s in (subjects | found))
    known = known and all(map(math.isfinite, found.values()))
    return {s: found[s] if known else 1.0 for s in (subjects | found)}, known


def influence_units(at_training: bool) -> dict[str, str]:
    """Of each objective, at the training's learning rates or at 1."""
    per = "" if at_training else " per unit learning rate"
    return {"entropy": f"nats a token{per}", "reward": f"reward a response{per}"}


def influences(runs: Sequence[InfluenceRun]) -> Influences:
    """Tokens by response and update, in the order of the tables."""
    by_rate, known = rates(runs)
    names = tell_apart(list(by_rate))
    found = []
    for run in runs:
        answers: dict[Subject, dict[int, list[Token]]] = {}
        for token in run.tables.tokens:
            own = answers.setdefault(subject(run, token), {})
            own.setdefault(token.response, []).append(token)
        for s, own in answers.items():
            made = _answers(run, s, own, by_rate[s])
            batch = _batch(run, s, by_rate[s], made)
            found.append(Update(s, names[s], by_rate[s], made, batch))
    return Influences(tuple(found), known)


def _answers(
    run: InfluenceRun, s: Subject, tokens: dict[int, list[Token]], rate: float
) -> tuple[Answer, ...]:
    sums: dict[tuple[str, str], Part] = {}
    for row in run.tables.groups:
        if row.by == "response" and subject(run, row) == s:
            part = Part(row.value, row.value_se, row.value_low, row.value_high)
            sums[row.objective, row.name] = part.times(rate)
    texts = {
        r.response: r
        for r in run.tables.responses
        if (r.checkpoint, r.update) == (s.checkpoint, s.update)
    }
    found = []
    for number, own in tokens.items():
        said = texts.get(number)
        does = {
            objective: sums.get((objective, str(number)))
            or _sum(own, objective).times(rate)
            for objective in OBJECTIVES
        }
        found.append(
            Answer(
                number=number,
                group=own[0].group,
                prompt=said.prompt_text if said else "",
                text=said.text if said else "".join(t.text for t in own),
                reward=said.reward if said else math.nan,
                advantage=own[0].advantage,
                tokens=tuple(own),
                does=does,
            )
        )
    return tuple(found)


def _batch(
    run: InfluenceRun, s: Subject, rate: float, answers: Sequence[Answer]
) -> dict[str, float]:
    known = {
        row.objective: rate * row.value
        for row in run.tables.balance
        if row.part == "batch" and subject(run, row) == s
    }
    summed = {o: math.fsum(a.does[o].value for a in answers) for o in OBJECTIVES}
    return summed | known


def _sum(tokens: Sequence[Token], objective: str) -> Part:
    """Errors of tokens are of the same samples, so that they do not add up."""
    value = math.fsum(getattr(t, objective) for t in tokens)
    return Part(value, math.nan, math.nan, math.nan)
