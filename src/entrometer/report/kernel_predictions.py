"""Figure of held-out log-probabilities: predicted by the kernel, and measured."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import span
from entrometer.report.plot import (
    RowsBySubject,
    RowsFigure,
    Subject,
    spread,
)
from entrometer.report.style import LOOKS
from entrometer.report.text import label
from entrometer.runs.tables.kernel import (
    KernelTables,
    Prediction,
)

_PARTS = {"predicted": "by the whole step", "own": "by this batch alone"}
_MOST_ROWS = 400
POINTS = 2_000
"""Points of all panels together."""
Runs = Sequence[FinishedRun[KernelTables]]


def _predictions_caption(rows: RowsBySubject[Prediction]) -> str:
    known = [x for x in map(relative_error, rows.rows.values()) if math.isfinite(x)]
    if not known:
        return "The closer a point is to the diagonal, the better the prediction."
    return (
        "The root mean square error of the whole step's prediction is "
        f"{span(known)} times the root mean square of the change."
    )


def relative_error(rows: list[Prediction]) -> float:
    """Return the root mean square of the error over that of the change."""
    pairs = np.array([(r.predicted, r.observed) for r in rows]).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    whole = float(np.square(pairs[:, 1]).sum())
    if not whole:
        return math.nan
    return math.sqrt(float(np.square(pairs[:, 0] - pairs[:, 1]).sum()) / whole)


def _draw_predictions(rows: dict[str, list[Prediction]]) -> Figure:
    figure, axes = draw.canvas(4.0, 1, 2, sharex=True, sharey=True)
    for ax, (column, title) in zip(axes, _PARTS.items(), strict=True):
        for (name, subset), look in zip(rows.items(), LOOKS, strict=False):
            some = spread(subset, POINTS // (2 * len(rows)))
            x, y = ([getattr(r, c) for r in some] for c in ("observed", column))
            how = {"color": look.colour, "alpha": 0.6, "markersize": 3.5}
            ax.plot(x, y, look.marker, **how, label=label(name))
        ax.set(title=title, xlabel="measured δS, nats")
        draw.few_ticks(ax)
    draw.identity(*axes)
    axes[0].set_ylabel("predicted δS, nats")
    return draw.with_legend(figure, len(rows) > 1)


predictions = RowsFigure[KernelTables, Prediction](
    "held-out",
    "Held-out responses, predicted and measured",
    "Predicted against measured change of the log-probability of held-out "
    "responses, in nats, with the diagonal: by the whole step on the left, by this "
    "batch through the kernel alone on the right. There are no intervals: each "
    "response is measured exactly.",
    "Change of the log-probability of held-out responses, nats",
    rows=lambda run: [
        (Subject(run.name, row.checkpoint, row.update, ""), row)
        for row in run.tables.predictions
        if math.isfinite(row.observed)
    ],
    most=len(LOOKS),
    caption=_predictions_caption,
    columns={
        "response": cells.number("response"),
        "tokens": cells.number("length"),
        "η": cells.number("eta"),
        "measured": cells.number("observed"),
        "whole step": cells.number("predicted"),
        "this batch alone": cells.number("own"),
    },
    most_rows=_MOST_ROWS,
    draw=_draw_predictions,
)
