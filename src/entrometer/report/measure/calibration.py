"""Predicted against observed, at the learning rate that the training used."""

from collections.abc import Sequence

import numpy as np

from entrometer.report.diagonal import Points, diagonal_caption, draw_diagonal
from entrometer.report.measure.curves import Curve, MeasureRun, best_precision, curves
from entrometer.report.numbers import number, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import arms
from entrometer.report.table import table
from entrometer.runs.tables.measure import Change

Pair = tuple[Curve, Change]


def calibration(runs: Sequence[MeasureRun]) -> Plot | None:
    """A point for each checkpoint and update, and what is left of each."""
    found = best_precision(curves(runs))
    pairs = [(curve, c) for curve in found if (c := curve.at_training())]
    if not pairs:
        return None
    return Plot(
        key="calibration",
        title="Prediction against observation",
        caption=diagonal_caption(_points([c for _, c in pairs])),
        description=(
            "Left: predicted against observed entropy change at the learning rate of "
            "training, in nats a token, with 95% intervals and the diagonal. Right: "
            "prediction less observation with its paired 95% interval."
        ),
        table=table(
            "Entropy change at the learning rate of training, nats a token, ± one "
            "standard error",
            ("subject", "η", "observed Δh", "predicted ηh′", "predicted − observed"),
            [
                [
                    curve.name,
                    number(c.eta),
                    with_error(c.observed, c.observed_se),
                    with_error(c.linear, c.linear_se),
                    with_error(c.error, c.error_se),
                ]
                for curve, c in pairs
            ],
        ),
        draw=lambda: draw_diagonal(_groups(pairs)),
    )


def _groups(pairs: Sequence[Pair]) -> dict[str, Points]:
    """The updates of a checkpoint share a look."""
    several = len({curve.subject.run for curve, _ in pairs}) > 1
    groups: dict[str, list[Change]] = {}
    for curve, c in pairs:
        run = f"{curve.subject.run}, " if several else ""
        groups.setdefault(run + curve.subject.checkpoint, []).append(c)
    return {name: _points(changes) for name, changes in groups.items()}


def _points(changes: Sequence[Change]) -> Points:
    parts: list[np.ndarray] = []
    for name in ("observed", "linear", "error"):
        value, low, high = (
            np.array([getattr(c, name + end) for c in changes], np.float64)
            for end in ("", "_low", "_high")
        )
        parts += [value, arms(value, low, high)]
    return Points(*parts)
