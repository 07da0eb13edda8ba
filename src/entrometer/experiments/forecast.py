"""How long an experiment will take, and in how much memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from entrometer.experiments.calibrate import Calibration
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.cost_model import Memory, peak_memory
from entrometer.experiments.requests import Draw, Request, Subject
from entrometer.passes import TOKEN_BUDGET


@dataclass(frozen=True)
class Stage:
    """The passes of one kind."""

    passes: int
    responses: int
    done: int
    """Passes that the store has."""

    seconds: float
    """Of those that it has not."""


@dataclass(frozen=True)
class Forecast:
    """What an experiment is going to need."""

    stages: dict[str, Stage]
    loading: float
    studies: float
    """Seconds of everything after the passes."""

    memory: Memory | None
    """None where all is done."""

    @property
    def seconds(self) -> float:
        """All of it."""
        passes = sum(s.seconds for s in self.stages.values())
        return passes + self.loading + self.studies


class Outlook(NamedTuple):
    """A forecast, and the prices that it was made with; None where all is done."""

    forecast: Forecast
    prices: Calibration | None


def price(
    requests: Iterable[Request], store: Path, calibration: Calibration | None
) -> tuple[dict[str, Stage], float]:
    """Stages and the seconds of loading; None for the prices where all is done."""
    stages: dict[str, Stage] = {}
    subjects: list[Subject] = []
    for request in dict.fromkeys(requests):
        name, done = request.stage, request.path(store).exists()
        old = stages.get(name, Stage(0, 0, 0, 0.0))
        seconds = 0.0
        if not done and calibration is not None:
            seconds = calibration.seconds(request)
            if old.passes == old.done:
                seconds += calibration.rates[name].first
            if not subjects or subjects[-1] != request.subject:
                subjects.append(request.subject)
        stages[name] = Stage(
            old.passes + 1,
            old.responses + request.rows,
            old.done + done,
            old.seconds + seconds,
        )
    if calibration is None:
        return stages, 0.0
    again = len(subjects) - 1
    return stages, calibration.first_load + again * calibration.load


def memory(
    config: ExperimentConfig, found: Calibration, batch: Draw, vectors: int
) -> Memory:
    """Peak memory of a worker, with so many vectors as large as what is trained."""
    padded = (b.tokens for b in found.expected(batch).batches(TOKEN_BUDGET))
    return peak_memory(found.architecture, max(padded), vectors, config.precision)
