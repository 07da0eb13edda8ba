"""Predictions against observations, and what is left of each."""

from collections.abc import Mapping
from itertools import cycle
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.numbers import number, percent
from entrometer.report.panels import draw_identity
from entrometer.report.style import GREY, LOOKS, legend_above
from entrometer.report.text import label


class Points(NamedTuple):
    """Entropy changes in nats a token, each with the arms of its 95% interval."""

    observed: Float[np.ndarray, "n"]
    observed_arms: Float[np.ndarray, "2 n"]
    predicted: Float[np.ndarray, "n"]
    predicted_arms: Float[np.ndarray, "2 n"]
    error: Float[np.ndarray, "n"]
    """Predicted less observed, paired."""
    error_arms: Float[np.ndarray, "2 n"]


def draw_diagonal(groups: Mapping[str, Points]) -> Figure:
    """Left the diagonal, right the differences."""
    figure = Figure(figsize=(9.0, 4.0))
    left, right = figure.subplots(1, 2)
    for (name, points), look in zip(groups.items(), cycle(LOOKS), strict=False):
        style = {"color": look.colour, "marker": look.marker, "linestyle": "none"}
        x = points.observed
        arms = (points.predicted_arms, points.observed_arms)
        left.errorbar(
            x, points.predicted, *arms, label=label(name), elinewidth=0.7, **style
        )
        right.errorbar(x, points.error, points.error_arms, elinewidth=0.9, **style)
    draw_identity(left)
    left.set_ylabel("predicted ηh′, nats a token")
    right.axhline(0, color=GREY, linewidth=0.8)
    right.set_ylabel("predicted − observed, nats a token")
    for ax in (left, right):
        ax.set_xlabel("observed Δh, nats a token")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    if 1 < len(groups) <= len(LOOKS):
        legend_above(figure)
    return figure


def diagonal_caption(points: Points) -> str:
    """How far off the predictions are."""
    known = np.isfinite(points.error) & (points.observed != 0)
    if not known.any():
        return "The nearer a point is to the diagonal, the better the prediction."
    off = np.abs(points.error[known] / points.observed[known])
    median, worst = percent(float(np.median(off))), percent(float(off.max()))
    where = (
        f"The points lie a median of {median} of the change off the diagonal, at most "
        f"{worst}"
        if off.size > 1
        else f"The point lies {worst} of the change off the diagonal"
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = points.observed_arms.sum(axis=0) / points.error_arms.sum(axis=0)
    surer = ratio[np.isfinite(ratio)]
    if not surer.size:
        return f"{where}."
    times = number(float(np.median(surer)), 2)
    return (
        f"{where}; the difference, on the right, is {times} times as sure as the "
        "change, for both come from the same samples."
    )
