"""An experiment from outside the package: the mean length of responses."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import entrometer as em
from entrometer.experiments.batches import draw, short_names, subject_of
from entrometer.experiments.config import CheckpointConfig
from entrometer.experiments.experiment import Steps
from entrometer.experiments.requests import (
    Draw,
    Request,
    Responses,
    Subject,
    Worker,
    read_draws,
)
from entrometer.runs import response_seeds
from entrometer.runs.columns import read_columns, write_columns


@dataclass(frozen=True, kw_only=True)
class LengthConfig(CheckpointConfig):
    responses: int = 64
    """Responses per checkpoint, one per problem."""


@dataclass(frozen=True)
class MeanLength:
    """Mean length at one checkpoint, in tokens, with its standard error."""

    checkpoint: str
    length: float
    length_se: float
    responses: int


@dataclass(frozen=True)
class LengthTables:
    lengths: list[MeanLength] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Lengths(Request):
    """Length of each response of a draw."""

    kind: ClassVar[str] = "lengths"

    rollouts: Draw

    @property
    def batches(self) -> Sequence[Responses]:
        return []

    def run(self, worker: Worker) -> None:
        length = read_draws([self.rollouts], worker.store).length.astype(float)
        write_columns(self.path(worker.store), {"length": length})


@dataclass(frozen=True)
class Plan:
    name: str
    subject: Subject
    lengths: Lengths

    def requests(self) -> Iterator[Request]:
        yield from (self.lengths.rollouts, self.lengths)


def plan(config: LengthConfig) -> list[Plan]:
    problems = np.arange(min(config.responses, config.problems))
    seeds = response_seeds(config.seed, problems.tolist())
    points = []
    names = short_names(config.checkpoints)
    for name, path in zip(names, config.checkpoints, strict=True):
        subject = subject_of(config, Path(path))
        drawn = draw(config, subject, problems, seeds)
        points.append(Plan(name, subject, Lengths(subject=subject, rollouts=drawn)))
    return points


def collect(config: LengthConfig, points: list[Plan], store: Path) -> LengthTables:
    tables = LengthTables()
    for p in points:
        x = read_columns(p.lengths.path(store))["length"]
        mean, se = float(x.mean()), float(x.std(ddof=1) / x.size**0.5)
        tables.lengths.append(MeanLength(p.name, mean, se, x.size))
    return tables


def summarize(config: LengthConfig, tables: LengthTables) -> dict[str, Any]:
    rows = tables.lengths
    lines = [f"{r.checkpoint}: {r.length:.1f} ± {r.length_se:.1f}" for r in rows]
    return {"title": "Mean length", "sentences": lines, "warnings": []}


MEAN_LENGTH = em.register(
    em.Experiment(
        name="mean-length",
        help="Measure the mean length of responses at checkpoints.",
        config=LengthConfig,
        tables=LengthTables,
        steps=lambda: Steps(plan, collect, summarize),
    )
)

if __name__ == "__main__":
    sys.exit(em.main())
