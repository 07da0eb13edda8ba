"""Comparisons of interventions by point: a minibatch of an update of a checkpoint."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import Interval
from entrometer.report.plot import Subject, distinct_names, grouped
from entrometer.runs.tables.compare import CompareTables, FrontierPoint, Outcome

CompareRun = FinishedRun[CompareTables]
UNITS = {"entropy": "nats per token", "reward": "reward per response"}


def axis_label(objective: str) -> str:
    """Return an objective with its unit, which may name it already."""
    unit = UNITS[objective]
    return unit if unit.startswith(objective) else f"{objective}, {unit}"


@dataclass(frozen=True)
class Option:
    """An intervention at one strength, with its outcomes for entropy and reward."""

    rows: dict[str, Outcome]
    """Outcome by objective."""

    @property
    def entropy(self) -> Outcome:
        """Outcome for entropy, which also has the settings of the intervention."""
        return self.rows["entropy"]

    @property
    def name(self) -> str:
        """Name with the settings that are not the default."""
        return self.entropy.settings

    @property
    def plain(self) -> bool:
        """Whether no token's gradient differs from plain."""
        return self.entropy.changed == 0

    @property
    def scored(self) -> bool:
        """Whether rewards are known at all."""
        return not math.isnan(self.rows["reward"].predicted)

    @property
    def observed(self) -> bool:
        """Whether its step was taken, and the observed changes are finite."""
        known = [row for row in self.rows.values() if not math.isnan(row.predicted)]
        return bool(known) and all(math.isfinite(row.observed) for row in known)

    def change(self, objective: str) -> Interval:
        """Return the observed change; the predicted one if the step was not taken."""
        name = "observed" if self.observed else "predicted"
        return Interval.of(self.rows[objective], name)

    def gain(self, objective: str) -> Interval:
        """Return the change minus plain's; predicted if the step was not taken."""
        name = "observed_gain" if self.observed else "gain"
        return Interval.of(self.rows[objective], name)


@dataclass(frozen=True)
class Point:
    """A minibatch at which interventions are compared."""

    subject: Subject
    name: str
    """Short name that no other point has."""
    options: tuple[Option, ...]
    """Plain first, then every strength of every intervention."""
    frontier: tuple[FrontierPoint, ...]
    """Points of the frontier by price."""

    @property
    def reference(self) -> Option:
        """Plain."""
        return self.options[0]

    @property
    def remedies(self) -> list[Option]:
        """Interventions that differ from plain, at the strength that is tried."""
        return [o for o in self.options[1:] if o.entropy.tried and not o.plain]

    @property
    def idle(self) -> list[str]:
        """Names of the interventions that are tried and do not differ from plain."""
        return [o.name for o in self.options[1:] if o.entropy.tried and o.plain]

    def sweeps(self) -> list[list[Option]]:
        """Return a list per intervention that has several strengths, by strength."""
        # The frontier, whose tokens are chosen, is drawn as a line of its own.
        strengths = grouped(
            (o.entropy.name, o)
            for o in self.options[1:]
            if math.isfinite(o.entropy.strength) and not o.entropy.chosen
        )
        return [
            sorted(subset, key=lambda o: o.entropy.strength)
            for subset in strengths.values()
            if len(subset) > 1 and not all(o.plain for o in subset)
        ]


def points(runs: Sequence[CompareRun]) -> list[Point]:
    """Return each minibatch at which the runs compare interventions, in table order."""
    outcomes = grouped(
        (_subject(run, o), o) for run in runs for o in run.tables.outcomes
    )
    frontiers = grouped(
        (_subject(run, p), p) for run in runs for p in run.tables.frontier
    )
    names = distinct_names(list(outcomes))
    made = []
    for s, rows in outcomes.items():
        settings = grouped((row.settings, row) for row in rows).values()
        both = [{row.objective: row for row in subset} for subset in settings]
        options = tuple(Option(pair) for pair in both if pair.keys() >= UNITS.keys())
        frontier = sorted(frontiers.get(s, []), key=lambda p: p.price)
        if options:
            alone = "minibatch " * (names[s] == s.precision)
            made.append(Point(s, alone + names[s], options, tuple(frontier)))
    return made


def idle_words(some: Sequence[Point], *, named: bool = True) -> str:
    """Return a sentence on interventions equal to plain, with names if `named`."""
    names = by_place(some, [point.idle for point in some])
    if not names or named:
        words = " Not drawn, because they equal plain for every token: "
        return f"{words}{names}." * bool(names)
    return (
        " Interventions that do not differ from plain are not drawn; the caption of "
        "the frontier names them."
    )


def by_place(some: Sequence[Point], names: Sequence[Sequence[str]]) -> str:
    """Return names as text, each with the points that have it unless all do."""
    pairs = zip(some, names, strict=True)
    where = grouped((name, point.name) for point, subset in pairs for name in subset)
    places = grouped((tuple(at), name) for name, at in where.items())
    return "; ".join(
        ", ".join(subset) + (f" (at {' and '.join(at)})" if len(at) < len(some) else "")
        for at, subset in places.items()
    )


def _subject(run: CompareRun, row: Outcome | FrontierPoint) -> Subject:
    return Subject(run.name, row.checkpoint, row.update, row.minibatch)
