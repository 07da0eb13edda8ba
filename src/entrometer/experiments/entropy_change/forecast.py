"""How long a measurement will take, and in how much memory."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_statistics,
    linear_term,
    scatter,
)
from entrometer.experiments.calibrate import Calibration
from entrometer.experiments.cost import responses, work
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.plan import CheckpointPlan
from entrometer.experiments.requests import Subject
from entrometer.passes import TOKEN_BUDGET

PAIRS = 3
"""Pairs of weightings whose errors are studied."""

_KEPT = 20
"""Activations that a layer keeps for the way back, in hidden states, roughly."""

_BYTES = {"float32": 4, "float64": 8, "bfloat16": 2}


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
    """What a measurement is going to need."""

    stages: dict[str, Stage]
    loading: float
    studies: float
    """Seconds of everything after the passes."""

    memory: dict[str, float]
    """Bytes, by what takes them."""

    @property
    def seconds(self) -> float:
        """All of it."""
        passes = sum(s.seconds for s in self.stages.values())
        return passes + self.loading + self.studies


def forecast(
    config: MeasureConfig,
    points: Sequence[CheckpointPlan],
    store: Path,
    calibration: Calibration | None,
) -> Forecast:
    """Price a plan; None for the prices of one that the store has every pass of."""
    stages: dict[str, Stage] = {}
    subjects: list[Subject] = []
    for request in (r for point in points for r in point.requests()):
        name, done = request.stage, request.path(store).exists()
        old = stages.get(name, Stage(0, 0, 0, 0.0))
        seconds = 0.0
        if not done and calibration is not None:
            price = calibration.prices[name]
            seconds = price.seconds(work(request, calibration.size))
            seconds += price.first if old.passes == old.done else 0.0
            if not subjects or subjects[-1] != request.subject:
                subjects.append(request.subject)
        stages[name] = Stage(
            old.passes + 1,
            old.responses + responses(request),
            old.done + done,
            old.seconds + seconds,
        )
    loading, memory = 0.0, {}
    if calibration is not None:
        loading = calibration.first_load + (len(subjects) - 1) * calibration.load
        memory = _memory(config, points, calibration)
    return Forecast(stages, loading, _studies(config, points), memory)


def _memory(
    config: MeasureConfig, points: Sequence[CheckpointPlan], found: Calibration
) -> dict[str, float]:
    """Weights, what is as large as the trained ones, and activations of a batch."""
    size = _BYTES[config.precision]
    shape = found.architecture
    batch = found.size(points[0].draws[0]).padded
    # Two moments, a direction and a preconditioner; directions of all updates at once,
    # or the rows of an update's prompts, twice.
    vectors = 4 + max(
        len(config.updates), 2 * config.update_prompts if config.variance_prompts else 0
    )
    activations = min(batch, TOKEN_BUDGET) * shape.layers * shape.width * _KEPT
    return {
        "weights": float(shape.parameters * size),
        "vectors": float(shape.trained * size * vectors),
        "activations": float(activations * size),
    }


def _studies(config: MeasureConfig, points: Sequence[CheckpointPlan]) -> float:
    """Seconds of the synthetic batches, by trying a few of them."""
    change, slope, here = _sums(config.prompts)

    def error(change: PromptSums, slope: PromptSums) -> float:
        return entropy_change(change).value - linear_term(slope).value

    tried = min(config.synthetic_batches, 100)
    began = time.perf_counter()
    size = config.synthetic_size
    scatter([change, slope], error, size=size, batches=tried, seed=0)
    between = time.perf_counter()
    scatter([here], lambda h: entropy(h).value, size=size, batches=tried, seed=0)
    each_entropy = (time.perf_counter() - between) / tried
    each_error = (between - began) / tried
    etas = sum(len(u.changes) for point in points for u in point.updates)
    sizes = max(0, int(np.log2(config.prompts)) - 2) * len(points)
    return config.synthetic_batches * (
        PAIRS * etas * each_error + 2 * sizes * each_entropy
    )


def _sums(prompts: int) -> tuple[PromptSums, PromptSums, PromptSums]:
    """Statistics as the studies have them, of numbers that mean nothing."""
    rng = np.random.default_rng(0)
    responses = Responses.from_lengths(
        np.arange(prompts), np.full(prompts, 2, np.int64)
    )
    S, H, dS, dH = rng.uniform(0.5, 1.0, (4, responses.tokens))
    here, there = Tables(-S, H), Tables(-S - 1e-3 * dS, H + 1e-3 * dH)
    weighting = Weighting.PER_DECISION
    return (
        change_statistics(responses, here, there, weighting=weighting),
        linear_statistics(responses, here, Tangents(dS, dH), weighting=weighting),
        entropy_statistics(responses, H),
    )
