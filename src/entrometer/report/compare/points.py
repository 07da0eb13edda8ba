"""Comparisons of interventions by point: a minibatch of an update of a checkpoint."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from entrometer.report.kinds import FinishedRun
from entrometer.report.subjects import Subject, tell_apart
from entrometer.runs.tables.compare import CompareTables, FrontierPoint, Outcome

CompareRun = FinishedRun[CompareTables]
UNITS = {"entropy": "nats a token", "reward": "reward a response"}


class Estimate(NamedTuple):
    """A value with its 95% interval; NaN where it was not measured."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether it was measured."""
        return math.isfinite(self.value)


def estimate(row: Outcome | FrontierPoint, name: str) -> Estimate:
    """One quantity of a row."""
    return Estimate(*(getattr(row, name + end) for end in ("", "_low", "_high")))


@dataclass(frozen=True)
class Option:
    """An intervention at one strength, and what it does to both."""

    entropy: Outcome
    reward: Outcome

    @property
    def name(self) -> str:
        """With the settings that are not the default."""
        return self.entropy.settings

    @property
    def tried(self) -> bool:
        """Whether it is at the strength whose truth is asked for."""
        return self.entropy.tried

    @property
    def plain(self) -> bool:
        """Whether it pulls on every token as plain Dr-GRPO does."""
        return self.entropy.changed == 0

    @property
    def chosen(self) -> bool:
        """Whether its tokens were chosen by a half of the evaluation batch."""
        return self.entropy.chosen

    @property
    def observed(self) -> bool:
        """Whether its step was taken."""
        return all(math.isfinite(row.observed) for row in (self.entropy, self.reward))

    def row(self, objective: str) -> Outcome:
        """What it does to one of them."""
        return self.entropy if objective == "entropy" else self.reward

    def change(self, objective: str) -> Estimate:
        """As observed; as predicted where the step was not taken."""
        name = "observed" if self.observed else "predicted"
        return estimate(self.row(objective), name)

    def gain(self, objective: str) -> Estimate:
        """The change less that of plain: as observed, or as predicted."""
        name = "observed_gain" if self.observed else "gain"
        return estimate(self.row(objective), name)


@dataclass(frozen=True)
class Point:
    """Where interventions are compared."""

    subject: Subject
    """Its last part is the minibatch."""
    name: str
    """Short, and no other point's."""
    options: tuple[Option, ...]
    """Plain Dr-GRPO first, then every strength of every other."""
    frontier: tuple[FrontierPoint, ...]
    """By price."""

    @property
    def reference(self) -> Option:
        """Plain Dr-GRPO."""
        return self.options[0]

    @property
    def remedies(self) -> list[Option]:
        """At the strength that is tried, those that differ from plain."""
        return [o for o in self.options[1:] if o.tried and not o.plain]

    @property
    def idle(self) -> list[str]:
        """Names of those that are tried and do not differ from plain."""
        return [o.name for o in self.options[1:] if o.tried and o.plain]

    def sweeps(self) -> list[list[Option]]:
        """Remedies at several strengths, by strength; the frontier is a line itself."""
        found: dict[str, list[Option]] = {}
        for option in self.options[1:]:
            if math.isfinite(option.entropy.strength) and not option.chosen:
                found.setdefault(option.entropy.name, []).append(option)
        return [
            sorted(own, key=lambda o: o.entropy.strength)
            for own in found.values()
            if len(own) > 1 and not all(o.plain for o in own)
        ]


def points(runs: Sequence[CompareRun]) -> list[Point]:
    """All points of the runs, in the order of their tables."""
    outcomes: dict[Subject, dict[str, dict[str, Outcome]]] = {}
    frontiers: dict[Subject, list[FrontierPoint]] = {}
    for run in runs:
        for row in run.tables.outcomes:
            own = outcomes.setdefault(_subject(run, row), {})
            own.setdefault(row.settings, {})[row.objective] = row
        for place in run.tables.frontier:
            frontiers.setdefault(_subject(run, place), []).append(place)
    names = tell_apart(list(outcomes))
    found = []
    for s, own in outcomes.items():
        options = tuple(
            Option(both["entropy"], both["reward"])
            for both in own.values()
            if both.keys() >= UNITS.keys()
        )
        frontier = sorted(frontiers.get(s, []), key=lambda p: p.price)
        if options:
            alone = "minibatch " * (names[s] == s.precision)
            found.append(Point(s, alone + names[s], options, tuple(frontier)))
    return found


def idle_words(some: Sequence[Point], *, named: bool = True) -> str:
    """A sentence for remedies that do not differ from plain, and where they do not."""
    if not any(point.idle for point in some):
        return ""
    if not named:
        return (
            " Not drawn are remedies where they pull as plain does; the caption of the "
            "frontier names them."
        )
    names = by_place(some, [point.idle for point in some])
    return f" Not drawn, for they pull on every token as plain Dr-GRPO does: {names}."


def by_place(some: Sequence[Point], names: Sequence[Sequence[str]]) -> str:
    """Names in words, those at the same points together."""
    where: dict[str, list[str]] = {}
    for point, own in zip(some, names, strict=True):
        for name in own:
            where.setdefault(name, []).append(point.name)
    places: dict[tuple[str, ...], list[str]] = {}
    for name, at in where.items():
        places.setdefault(tuple(at), []).append(name)
    return "; ".join(
        ", ".join(own) + (f" (at {' and '.join(at)})" if len(at) < len(some) else "")
        for at, own in places.items()
    )


def _subject(run: CompareRun, row: Outcome | FrontierPoint) -> Subject:
    return Subject(run.name, row.checkpoint, row.update, row.minibatch)
