"""Updates of influence runs: tokens by response, at the training's learning rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from entrometer.report.kinds import FinishedRun
from entrometer.report.plot import Subject, distinct_names, grouped
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
UNITS = {"entropy": "nats per token", "reward": "reward per response"}
OBJECTIVES = tuple(UNITS)
_PER_UNIT = "per unit learning rate"
Summed = TypeVar("Summed", Balance, Group)


class Estimate(NamedTuple):
    """An influence on entropy or reward, and its standard error; NaN if unknown."""

    value: float
    se: float


@dataclass(frozen=True)
class Answer:
    """A response of an update, and the influence of all of its tokens together."""

    number: int
    group: int
    prompt: str
    text: str
    reward: float
    """Reward that the response got."""
    advantage: float
    tokens: tuple[Token, ...]
    influence: dict[str, Estimate]
    """Summed influence of its tokens by objective."""


@dataclass(frozen=True)
class Update:
    """One update of one checkpoint."""

    subject: Subject
    name: str
    """Short name that no other update has."""
    rate: float
    """Factor of an influence: the training's learning rate, or 1."""
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Rates:
    """Learning rate of each update; all are 1 unless each is known."""

    rates: dict[Subject, float]
    known: bool

    @property
    def where(self) -> str:
        """Which learning rate a value is for, in words."""
        return "at the training's learning rate" if self.known else _PER_UNIT

    @property
    def units(self) -> dict[str, str]:
        """Unit of an influence on entropy and on reward."""
        per = "" if self.known else f" {_PER_UNIT}"
        return {objective: unit + per for objective, unit in UNITS.items()}

    def scaled(self, run: InfluenceRun, row: Summed) -> tuple[Subject, Summed]:
        """Return a row's subject, and the row times the learning rate."""
        s, names = subject(run, row), ("value", "value_se", "value_low", "value_high")
        rate = self.rates[s]
        return s, replace(row, **{name: rate * getattr(row, name) for name in names})


@dataclass(frozen=True)
class Influences:
    """All updates of the runs of a page."""

    updates: tuple[Update, ...]
    rates: Rates


def subject(
    run: InfluenceRun, row: Token | Balance | Group | Score | Diagonal | Removal
) -> Subject:
    """Return the run, checkpoint and update that a row is about."""
    return Subject(run.name, row.checkpoint, row.update, "")


def rates_of(runs: Sequence[InfluenceRun]) -> Rates:
    """Return the learning rates of all updates of some runs."""
    rates = {
        subject(r, row): row.learning_rate for r in runs for row in r.tables.balance
    }
    every = dict.fromkeys(subject(r, t) for r in runs for t in r.tables.tokens) | rates
    known = all(0 < rates.get(s, math.nan) < math.inf for s in every)
    return Rates({s: rates[s] if known else 1.0 for s in every}, known)


def influences(runs: Sequence[InfluenceRun]) -> Influences:
    """Return all updates of the runs, with responses and tokens in table order."""
    rates = rates_of(runs)
    names = distinct_names(list(rates.rates))
    updates = []
    for run in runs:
        tokens = grouped((subject(run, token), token) for token in run.tables.tokens)
        for s, subset in tokens.items():
            answers = _answers(run, s, subset, rates)
            updates.append(Update(s, names[s], rates.rates[s], answers))
    return Influences(tuple(updates), rates)


def _answers(
    run: InfluenceRun, s: Subject, every: list[Token], rates: Rates
) -> tuple[Answer, ...]:
    rows = [
        rates.scaled(run, row)[1]
        for row in run.tables.groups
        if row.by == "response" and subject(run, row) == s
    ]
    sums = {
        (row.objective, row.name): Estimate(row.value, row.value_se) for row in rows
    }
    texts = {
        r.response: r
        for r in run.tables.responses
        if (r.checkpoint, r.update) == (s.checkpoint, s.update)
    }
    answers = []
    for number, tokens in grouped((t.response, t) for t in every).items():
        # Tokens share their samples, so that their standard errors do not add up.
        influence = {
            o: sums.get((o, str(number)))
            or Estimate(
                rates.rates[s] * math.fsum(getattr(t, o) for t in tokens), math.nan
            )
            for o in OBJECTIVES
        }
        text = texts.get(number)
        answers.append(
            Answer(
                number=number,
                group=tokens[0].group,
                prompt=text.prompt_text if text else "",
                text=text.text if text else "".join(t.context + t.text for t in tokens),
                reward=text.reward if text else math.nan,
                advantage=tokens[0].advantage,
                tokens=tuple(tokens),
                influence=influence,
            )
        )
    return tuple(answers)
