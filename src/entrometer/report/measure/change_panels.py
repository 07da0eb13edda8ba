"""One curve of entropy changes: on log scales, and on linear ones."""

import math

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from entrometer.report.measure.curves import Curve
from entrometer.report.numbers import number
from entrometer.report.style import (
    BLUE,
    GREY,
    OCHRE,
    ON_PAPER,
    RED,
    TEAL,
    Look,
    interval_bars,
    log_axis,
    log_x,
    say,
)

Column = Float[np.ndarray, "_"]
_IN_SIGHT = 30.0
"""Times the largest learning rate, up to which the log panel reaches for η*."""


def log_panel(ax: Axes, curve: Curve) -> None:
    """Sizes on log scales; the marker tells the sign."""
    eta, y = curve.column("eta"), curve.column("observed")
    size = np.abs(y)
    if not size.any():
        say(ax, "no change")
        return
    bottom, top = size[size > 0].min() / 4, size.max() * 4
    ax.set(yscale="log", ylim=(bottom, top))
    ends = np.sort([np.sign(y) * x for x in _interval(curve)], axis=0)
    # An arm that reaches zero goes to the edge of the panel.
    _observed(ax, eta, y, size, np.maximum(ends[0], bottom), ends[1])
    predicted = (np.abs(curve.column(name)) for name in ("linear", "quadratic"))
    _predictions(ax, eta, *predicted)
    marks = _marks(ax, curve, _IN_SIGHT * float(eta.max()))
    floor = curve.term.floor if curve.term else math.nan
    if floor >= bottom / 100:
        ax.axhline(floor, color=TEAL, linestyle=(0, (1, 1)), label="rounding alone")
        ax.set_ylim(min(bottom, floor / 2), top)
    elif floor > 0:
        words = f"rounding alone: {number(floor, 2)}, far below"
        inside = ax.transAxes
        ax.text(0.02, 0.93, words, fontsize=7.5, transform=inside, bbox=ON_PAPER)
    log_x(ax, (*eta, *marks))
    log_axis(ax.yaxis)


def linear_panel(ax: Axes, curve: Curve) -> None:
    """Signed changes up to η*, on linear scales."""
    eta, y = curve.column("eta"), curve.column("observed")
    star = curve.term.eta_star if curve.term else math.nan
    reach = max((x for x in (star, 3 * curve.training_rate) if x > 0), default=math.inf)
    near = eta <= max(1.1 * reach, *eta[:2])
    _observed(ax, eta[near], y[near], y[near], *(x[near] for x in _interval(curve)))
    fine = np.linspace(0, eta[near].max(), 50)
    predicted = (_polynomial(curve, name, fine) for name in ("linear", "quadratic"))
    _predictions(ax, fine, *predicted)
    ax.axhline(0, color=GREY, linewidth=0.6)
    _marks(ax, curve, 1.2 * float(eta[near].max()))
    ax.xaxis.set_major_locator(MaxNLocator(6))


def _interval(curve: Curve) -> tuple[Column, Column]:
    return curve.column("observed_low"), curve.column("observed_high")


def _observed(
    ax: Axes, eta: Column, sign: Column, y: Column, low: Column, high: Column
) -> None:
    for rows, marker, fill, name in (
        (sign < 0, "o", BLUE, "observed, entropy falls"),
        (sign > 0, "s", "none", "observed, entropy rises"),
    ):
        if rows.any():
            part = (eta[rows], y[rows], low[rows], high[rows])
            look = Look(BLUE, marker, "none")
            interval_bars(ax, *part, look, name, markerfacecolor=fill, zorder=3)


def _predictions(ax: Axes, eta: Column, linear: Column, both: Column) -> None:
    ax.plot(eta, linear, "--", color=RED, label="linear, ηh′")
    if np.isfinite(both).any():
        ax.plot(eta, both, ":", color=OCHRE, linewidth=1.8, label="linear + quadratic")


def _polynomial(curve: Curve, name: str, at: Column) -> Column:
    """A prediction between its points, which a quadratic through zero goes through."""
    eta, y = curve.column("eta"), curve.column(name)
    known = np.isfinite(y)
    if not known.any():
        return np.full(len(at), np.nan)
    # Over η: what is left is a line, and each point weighs the same.
    degree = 0 if name == "linear" or known.sum() == 1 else 1
    slope = np.polynomial.Polynomial.fit(eta[known], y[known] / eta[known], degree)
    return np.asarray(at * slope(at))


def _marks(ax: Axes, curve: Curve, reach: float) -> list[float]:
    """Draw the learning rate of training, and the end of the linear regime if near."""
    drawn = []
    if 0 < curve.training_rate <= reach:
        drawn.append(curve.training_rate)
        ax.axvline(drawn[-1], color=GREY, linewidth=0.8, label="η of the training")
    if curve.term and 0 < curve.term.eta_star <= reach:
        drawn.append(curve.term.eta_star)
        ax.axvline(drawn[-1], color=GREY, linestyle="-.", label="η*, with interval")
        ends = (curve.term.eta_star_low, curve.term.eta_star_high)
        if ends[0] > 0 and math.isfinite(ends[1]):
            ax.axvspan(*ends, color=GREY, alpha=0.12, linewidth=0)
    return drawn
