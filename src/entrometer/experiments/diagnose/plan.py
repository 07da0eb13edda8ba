"""Passes of a diagnosis, those of three experiments, and the tables they lead to."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entrometer.experiments.compare import plan as compare
from entrometer.experiments.compare.collect import collect as collect_compare
from entrometer.experiments.diagnose.config import DiagnoseConfig
from entrometer.experiments.experiment import Point
from entrometer.experiments.influence import plan as influence
from entrometer.experiments.influence import removals
from entrometer.experiments.influence.collect import collect as collect_influence
from entrometer.experiments.measure import plan as measure
from entrometer.experiments.measure.collect import collect as collect_measure
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import DamagedFile, UpdateBatch, nearest_updates, read_update
from entrometer.runs.tables.diagnose import CurvePoint, DiagnoseTables

logger = logging.getLogger(__name__)

_MOST_POINTS = 200
"""Most points of the curve: a longer training is shown at equal distances."""


class Plans(NamedTuple):
    """The points of a diagnosis, by the experiment that planned them."""

    measure: list[measure.CheckpointPlan]
    influence: list[influence.CheckpointPlan]
    compare: list[compare.PointPlan]

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Plans":
        """Return the points by experiment."""
        return cls(
            [p for p in points if isinstance(p, measure.CheckpointPlan)],
            [p for p in points if isinstance(p, influence.CheckpointPlan)],
            [p for p in points if isinstance(p, compare.PointPlan)],
        )


def plan(config: DiagnoseConfig) -> list[Point]:
    """Return the points of `measure`, `influence` and `compare`; loads no model."""
    return [
        *measure.plan(config.measure),
        *influence.plan(config.influence),
        *compare.plan(config.compare),
    ]


def follow_up(
    config: DiagnoseConfig, points: Sequence[Point], store: Path
) -> list[Point]:
    """Return the points with the check by removal and the remedies' steps added."""
    plans = Plans.of(points)
    return [
        *plans.measure,
        *removals.follow_up(config.influence, plans.influence, store),
        *compare.follow_up(config.compare, plans.compare, store),
    ]


def collect(
    config: DiagnoseConfig, points: Sequence[Point], store: Path
) -> DiagnoseTables:
    """Return the tables of all three experiments, and the training's curve."""
    plans = Plans.of(points)
    compared = collect_compare(config.compare, plans.compare, store)
    tables: dict[str, Any] = {
        **vars(collect_influence(config.influence, plans.influence, store)),
        **vars(compared),
        # Last, because the table `signal` is its own.
        **vars(collect_measure(config.measure, plans.measure, store)),
        "expected": compared.expected,
        "batches": compared.batches,
    }
    curve = [row for p in plans.measure for row in _curve(p.name, Path(p.subject.path))]
    return DiagnoseTables(**tables, curve=curve)


def _curve(name: str, checkpoint: Path) -> list[CurvePoint]:
    """Return entropy and reward of the recorded updates up to the checkpoint's own."""
    step = read_schedule(checkpoint).step + 1
    run = checkpoint.parent
    paths = [p for p in nearest_updates(run / "updates", step + 1) if _step(p) <= step]
    every = -(-len(paths) // _MOST_POINTS) or 1
    points = []
    # The nearest is the first: it stays, whatever the distance of the others.
    for path in reversed(paths[::every]):
        try:
            points.append(_point(name, read_update(path)))
        except DamagedFile as error:
            # The curve is a background: one bad copy must not cost hours of passes.
            logger.warning("not on the curve: %s", error)
    return points


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _point(name: str, batch: UpdateBatch) -> CurvePoint:
    H = np.array([h[c].sum() for h, c in zip(batch.H, batch.counted, strict=True)])
    T = np.array([c.sum() for c in batch.counted])
    _, group = np.unique(batch.group, return_inverse=True)
    G, tokens = group.max() + 1, T.sum() or np.nan
    entropy = H.sum() / tokens
    # The ratio by the delta method, clustered by prompt group.
    psi = np.bincount(group, H - entropy * T) / tokens
    error = np.sqrt(G / (G - 1) * (psi**2).sum()) if G > 1 else np.nan
    scored = batch.reward[np.isfinite(batch.reward)]
    return CurvePoint(
        checkpoint=name,
        step=batch.settings.step - 1,
        entropy=float(entropy),
        entropy_se=float(error),
        reward=float(scored.mean()) if scored.size else np.nan,
        responses=batch.count,
    )
