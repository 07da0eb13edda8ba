"""Comparisons of interventions by point: a minibatch of an update of a checkpoint."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import Interval
from entrometer.report.plot import Subject, distinct_names
from entrometer.runs.tables.compare import CompareTables, FrontierPoint, Outcome

CompareRun = FinishedRun[CompareTables]
UNITS = {"entropy": "nats per token", "reward": "reward per response"}


@dataclass(frozen=True)
class Option:
    """An intervention at one strength, with its outcome for both objectives."""

    entropy: Outcome
    reward: Outcome

    @property
    def name(self) -> str:
        """Name with the settings that are not the default."""
        return self.entropy.settings

    @property
    def tried(self) -> bool:
        """Whether this strength is the one whose step may be taken."""
        return self.entropy.tried

    @property
    def plain(self) -> bool:
        """Whether every token has the same weight as under plain Dr-GRPO."""
        return self.entropy.changed == 0

    @property
    def chosen(self) -> bool:
        """Whether half of the evaluation batch chose its tokens."""
        return self.entropy.chosen

    @property
    def observed(self) -> bool:
        """Whether its step was taken."""
        return all(math.isfinite(row.observed) for row in (self.entropy, self.reward))

    def row(self, objective: str) -> Outcome:
        """Return the outcome for one objective."""
        return self.entropy if objective == "entropy" else self.reward

    def change(self, objective: str) -> Interval:
        """Return the observed change; the predicted one if the step was not taken."""
        name = "observed" if self.observed else "predicted"
        return Interval.of(self.row(objective), name)

    def gain(self, objective: str) -> Interval:
        """Return the change minus that of plain: observed, or predicted."""
        name = "observed_gain" if self.observed else "gain"
        return Interval.of(self.row(objective), name)


@dataclass(frozen=True)
class Point:
    """A minibatch at which interventions are compared."""

    subject: Subject
    name: str
    """Short name that no other point has."""
    options: tuple[Option, ...]
    """Plain Dr-GRPO first, then every strength of every intervention."""
    frontier: tuple[FrontierPoint, ...]
    """Points of the frontier by price."""

    @property
    def reference(self) -> Option:
        """Plain Dr-GRPO."""
        return self.options[0]

    @property
    def remedies(self) -> list[Option]:
        """Interventions that differ from plain, at the strength that is tried."""
        return [o for o in self.options[1:] if o.tried and not o.plain]

    @property
    def idle(self) -> list[str]:
        """Names of the interventions that are tried and do not differ from plain."""
        return [o.name for o in self.options[1:] if o.tried and o.plain]

    def sweeps(self) -> list[list[Option]]:
        """Return the interventions that have several strengths, by strength."""
        strengths: dict[str, list[Option]] = {}
        for option in self.options[1:]:
            # The frontier is drawn as a line of its own.
            if math.isfinite(option.entropy.strength) and not option.chosen:
                strengths.setdefault(option.entropy.name, []).append(option)
        return [
            sorted(subset, key=lambda o: o.entropy.strength)
            for subset in strengths.values()
            if len(subset) > 1 and not all(o.plain for o in subset)
        ]


def points(runs: Sequence[CompareRun]) -> list[Point]:
    """Return all points of the runs, in the order of their tables."""
    outcomes: dict[Subject, dict[str, dict[str, Outcome]]] = {}
    frontiers: dict[Subject, list[FrontierPoint]] = {}
    for run in runs:
        for row in run.tables.outcomes:
            settings = outcomes.setdefault(_subject(run, row), {})
            settings.setdefault(row.settings, {})[row.objective] = row
        for place in run.tables.frontier:
            frontiers.setdefault(_subject(run, place), []).append(place)
    names = distinct_names(list(outcomes))
    made = []
    for s, settings in outcomes.items():
        options = tuple(
            Option(both["entropy"], both["reward"])
            for both in settings.values()
            if both.keys() >= UNITS.keys()
        )
        frontier = sorted(frontiers.get(s, []), key=lambda p: p.price)
        if options:
            alone = "minibatch " * (names[s] == s.precision)
            made.append(Point(s, alone + names[s], options, tuple(frontier)))
    return made


def idle_words(some: Sequence[Point], *, named: bool = True) -> str:
    """Return a sentence on the interventions that do not differ from plain."""
    if not any(point.idle for point in some):
        return ""
    if not named:
        return (
            " Interventions that do not differ from plain are not drawn; the caption "
            "of the frontier names them."
        )
    names = by_place(some, [point.idle for point in some])
    return f" Not drawn, because they equal plain Dr-GRPO for every token: {names}."


def by_place(some: Sequence[Point], names: Sequence[Sequence[str]]) -> str:
    """Return names in words, those of the same points together."""
    where: dict[str, list[str]] = {}
    for point, subset in zip(some, names, strict=True):
        for name in subset:
            where.setdefault(name, []).append(point.name)
    places: dict[tuple[str, ...], list[str]] = {}
    for name, at in where.items():
        places.setdefault(tuple(at), []).append(name)
    return "; ".join(
        ", ".join(subset) + (f" (at {' and '.join(at)})" if len(at) < len(some) else "")
        for at, subset in places.items()
    )


def _subject(run: CompareRun, row: Outcome | FrontierPoint) -> Subject:
    return Subject(run.name, row.checkpoint, row.update, row.minibatch)
