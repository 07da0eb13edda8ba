"""The entropy change of single updates, predicted and observed while training."""

import numpy as np

from entrometer.report.diagonal import Points, diagonal_caption, draw_diagonal
from entrometer.report.numbers import number, with_error
from entrometer.report.plot import Plot
from entrometer.report.read import TrainingRun
from entrometer.report.table import table
from entrometer.report.training.over_steps import Runs, column

_NAMES = ("observed", "predicted", "error")


def prediction(runs: Runs) -> Plot | None:
    """A point for each update that was measured."""
    groups = {r.name: _points(r) for r in runs if _measured(r).size}
    if not groups:
        return None
    rows = [
        [
            *(run.name, number(float(run.tables.metrics["step"][i]))),
            *(with_error(*(float(x[i]) for x in _value(run, name))) for name in _NAMES),
        ]
        for run in runs
        for i in _measured(run)
    ]
    together = (np.concatenate(x, axis=-1) for x in zip(*groups.values(), strict=True))
    return Plot(
        key="training-prediction",
        title="Single updates, predicted and observed",
        caption=diagonal_caption(Points(*together)),
        description=(
            "Left: predicted against observed entropy change of updates during "
            "training, in nats a token, with 95% intervals and the diagonal. Right: "
            "prediction less observation with its paired 95% interval."
        ),
        table=table(
            "Entropy change of single updates, nats a token, ± one standard error",
            ("run", "step", "observed Δh", "predicted ηh′", "predicted − observed"),
            rows,
        ),
        draw=lambda: draw_diagonal(groups),
    )


def _points(run: TrainingRun) -> Points:
    parts = []
    for name in _NAMES:
        value, se = (x[_measured(run)] for x in _value(run, name))
        # The trainer logs no degrees of freedom: the interval is the normal one.
        parts += [value, np.tile(1.96 * se, (2, 1))]
    return Points(*parts)


def _measured(run: TrainingRun) -> np.ndarray:
    found = [column(run.tables.metrics, f"predicted_change/{name}") for name in _NAMES]
    return np.flatnonzero(np.isfinite(found).all(axis=0))


def _value(run: TrainingRun, name: str) -> tuple[np.ndarray, np.ndarray]:
    full = f"predicted_change/{name}"
    return column(run.tables.metrics, full), column(run.tables.metrics, f"{full}_se")
