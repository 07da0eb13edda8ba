"""One point in the figure of the frontier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from entrometer.report.compare.axes import axis_ends
from entrometer.report.compare.points import UNITS, Estimate, Option, Point, estimate
from entrometer.report.labels import lead_labels
from entrometer.report.style import BLUE, GREY, PAPER, RED, TEAL, arms

Places = Float[np.ndarray, "_ 2 3"]
"""Change of entropy and of reward, each with its low and high end."""


def places(options: Sequence[Option], *, predicted: bool = False) -> Places:
    """Where options are: as they turned out, or as all of them were predicted."""

    def place(option: Option, objective: str) -> Estimate:
        if predicted:
            return estimate(option.row(objective), "predicted")
        return option.change(objective)

    return np.array(
        [[place(option, objective) for objective in UNITS] for option in options],
        np.float64,
    ).reshape(-1, 2, 3)


def shown(found: Places) -> Places:
    """Those of which both changes are known."""
    known = np.atleast_1d(np.isfinite(found[:, :, 0]).all(axis=1))
    both: Places = found[known]
    return both


def draw_panel(ax: Axes, point: Point) -> None:
    """The frontier, sweeps over strengths, remedies with names, and plain."""
    held = np.array(
        [[estimate(p, objective) for objective in UNITS] for p in point.frontier],
        np.float64,
    ).reshape(-1, 2, 3)
    fitted = np.array(
        [(p.fitted_entropy, p.fitted_reward) for p in point.frontier], np.float64
    ).reshape(-1, 2)
    sweeps = [places(own, predicted=True)[:, :, 0] for own in point.sweeps()]
    plain = shown(places([point.reference]))
    seen = [o for o in point.remedies if len(shown(places([o])))]
    remedies = places(seen)
    for axis in range(2):
        marked = np.concatenate([p[:, axis] for p in (plain, remedies, held)])
        other = np.concatenate([own[:, axis] for own in (fitted, *sweeps)])
        ends = axis_ends(marked[:, 0], np.concatenate([marked.ravel(), other]))
        ax.set(**{f"{'xy'[axis]}lim": ends})
    for number, own in enumerate(sweeps):
        name = None if number else "predicted over strengths"
        ax.plot(
            *own.T, ".-", color=BLUE, alpha=0.4, linewidth=0.8, markersize=2, label=name
        )
    if len(fitted):
        dotted: dict[str, Any] = {"color": TEAL, "linestyle": ":", "linewidth": 1.0}
        ax.plot(*fitted.T, **dotted, label="frontier as fitted, too good")
        _arms(ax, held, TEAL, 0.35)
        ax.plot(
            *held[:, :, 0].T, "s-", color=TEAL, markersize=3, label="frontier, held out"
        )
    _arms(ax, remedies, BLUE, 0.3)
    for taken, fill, name in ((True, BLUE, "observed"), (False, PAPER, "predicted")):
        own = remedies[[o.observed == taken for o in seen], :, 0]
        if len(own):
            how: dict[str, Any] = {
                "color": BLUE,
                "markerfacecolor": fill,
                "markersize": 5,
            }
            ax.plot(*own.T, "o", **how, label=f"remedy, {name}")
    _arms(ax, plain, RED, 0.5)
    ax.plot(*plain[:, :, 0].T, "*", color=RED, markersize=11, label="plain Dr-GRPO")
    # Those far from plain are named first: they are what there is to see.
    order = _far(remedies[:, :, 0], plain[:, :, 0], ax)
    lead_labels(
        ax,
        remedies[order, :, 0],
        [seen[i].name for i in order],
        np.concatenate([plain[:, :, 0], held[:, :, 0]]),
    )
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.axvline(0, color=GREY, linewidth=0.5)
    ax.set_xlabel(f"change of entropy, {UNITS['entropy']}")
    ax.set_ylabel(f"change of reward, {UNITS['reward']}")
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _arms(ax: Axes, at: Places, colour: str, alpha: float) -> None:
    (x, *xs), (y, *ys) = at[:, 0].T, at[:, 1].T
    ax.errorbar(
        *(x, y, arms(y, *ys), arms(x, *xs)),
        fmt="none",
        ecolor=colour,
        elinewidth=0.7,
        capsize=0,
        alpha=alpha,
    )


def _far(
    at: Float[np.ndarray, "n 2"], plain: Float[np.ndarray, "_ 2"], ax: Axes
) -> list[int]:
    spans = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())])
    centre = plain[0] if len(plain) else np.zeros(2)
    away = np.square((at - centre) / spans).sum(axis=1)
    return [int(i) for i in np.argsort(-away, kind="stable")]
