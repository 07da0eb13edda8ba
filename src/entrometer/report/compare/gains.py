"""Figures with a row per intervention: gain over plain, distance to the frontier."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, nan
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.compare.agreement import gain
from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Option,
    Point,
    by_place,
    idle_words,
    points,
)
from entrometer.report.interval_rows import interval_rows, row_height
from entrometer.report.numbers import Interval, percent, span
from entrometer.report.plot import Plot, grouped, omitted, spread
from entrometer.report.style import GREY, PAPER
from entrometer.report.table import table

_MOST = 4
"""Points that have room in a row."""
_PLAIN = "plain"


def gains(runs: Sequence[CompareRun]) -> Plot | None:
    """Return the plot of each intervention's gain over plain; None if none is known."""
    every = [p for p in points(runs) if any(map(_known, p.remedies))]
    if not every:
        return None
    shown = spread(every, _MOST)
    return Plot(
        "gains",
        "Gain over plain on this batch",
        "A row for each intervention, the one that keeps most entropy at the top: "
        "its change minus that of plain, of entropy on the left and of "
        "reward on the right. Filled markers with 95% intervals are observed, open "
        "ones predicted by influence, if a step was taken by the half of the "
        "prompts that does not observe it; each minibatch has its colour and marker.",
        caption=_gains_caption(every)
        + idle_words(shown, named=False)
        + omitted(shown, every),
        table=table(
            "Change minus that of plain, paired, with 95% intervals, of "
            "entropy in nats per token and of reward per response; share of the tokens "
            "whose gradient differs from plain. If a step was taken, one half of the "
            "prompts predicts and the other observes",
            (
                *("subject", "intervention", "tokens", "entropy, predicted"),
                *("entropy, observed", "reward, predicted", "reward, observed"),
            ),
            [
                [
                    *(point.name, option.name, percent(option.entropy.changed)),
                    *(
                        str(estimate(point, option, objective))
                        for objective in UNITS
                        for estimate in (_predicted, _observed)
                    ),
                ]
                for point in every
                for option in sorted(point.remedies, key=_entropy_loss)
            ],
            label_columns=2,
        ),
        draw=lambda: _draw_gains(shown),
    )


def _known(option: Option) -> bool:
    return option.gain("entropy").known and option.gain("reward").known


def _entropy_loss(option: Option) -> float:
    gained = option.gain("entropy")
    return -gained.value if gained.known else inf


def _gains_caption(every: Sequence[Point]) -> str:
    # The frontier is left out: it is no setting that a training could use.
    remedies = ((point.name, o) for point in every for o in point.remedies)
    cases = [
        case for case in remedies if _known(case[1]) and not case[1].entropy.chosen
    ]
    more = [case for case in cases if case[1].gain("entropy").low > 0]
    less = [case for case in cases if case[1].gain("entropy").high < 0]
    costly = [case for case in more if case[1].gain("reward").high < 0]
    words = (
        f"Of {len(cases)} cases, one intervention at one minibatch each, {len(more)} "
        f"keep more entropy than plain beyond noise, {len(costly)} of them at a cost "
        f"in reward beyond noise, and {len(less)} keep less entropy. "
    )
    if more:
        name, best = max(more, key=lambda case: case[1].gain("entropy").value)
        where = f" at {name}" if len(every) > 1 else ""
        words += (
            f"{best.name}{where} keeps most: its gain over plain is "
            f"{best.gain('entropy')} nats per token and {best.gain('reward')} reward. "
        )
    if any(option.observed for _, option in cases):
        words += "Open markers are predictions by the half of the prompts that does "
        words += "not observe. "
    words += "Where nothing differs, one interval in twenty misses zero by chance."
    return words


def _predicted(point: Point, option: Option, objective: str) -> Interval:
    """Return the prediction, by the half that does not observe if a step was taken."""
    row = option.rows[objective]
    if not option.observed:
        return Interval.of(row, "gain")
    if option.entropy.chosen:
        # The other half chose the tokens, so that its prediction is biased upwards.
        return Interval(nan, nan, nan)
    return gain(row, point.reference.rows[objective]).predicted


def _observed(_: Point, option: Option, objective: str) -> Interval:
    return Interval.of(option.rows[objective], "observed_gain")


def _by_median(pairs: Iterable[tuple[str, float]]) -> list[str]:
    values = grouped(pairs)
    return sorted(values, key=lambda name: median(values[name]))


def _draw_gains(shown: Sequence[Point]) -> Figure:
    names = _by_median(
        (o.name, _entropy_loss(o)) for p in shown for o in filter(_known, p.remedies)
    )
    figure, axes = draw.canvas(
        max(2.4, 1.3 + row_height(len(shown)) * len(names)), 1, 2, sharey=True
    )
    for ax, objective in zip(axes, UNITS, strict=True):
        filled, hollow = (
            {p.name: {o.name: of(p, o, objective) for o in p.remedies} for p in shown}
            for of in (_observed, _predicted)
        )
        interval_rows(ax, names, filled, hollow)
        ax.set_xlabel(f"gain in {objective}, {UNITS[objective]}")
    ring: dict[str, Any] = {"markerfacecolor": PAPER, "markeredgewidth": 0.7}
    name = "open: predicted by influence"
    axes[0].plot([], [], "o", color=GREY, markersize=6.5, **ring, label=name)
    return draw.with_legend(figure)


def distance_to_frontier(runs: Sequence[CompareRun]) -> Plot | None:
    """Return the plot of distances below the frontier; None if none is known."""
    every = [p for p in points(runs) if any(gap.known for gap in _gaps(p).values())]
    if not every:
        return None
    shown = spread(every, _MOST)
    return Plot(
        "below-frontier",
        "Distance to the frontier",
        "A row for each intervention and for plain, the one nearest to the "
        "frontier at the top: reward by which its prediction is below the held-out "
        "frontier at the same change of entropy, with 95% intervals; each minibatch "
        "has its colour and marker.",
        caption=_distance_caption(every)
        + _beyond(shown)
        + idle_words(shown, named=False)
        + omitted(shown, every),
        table=table(
            "Reward per response by which a prediction is below the held-out frontier "
            "at its change of entropy, with 95% interval; – is beyond the entropy that "
            "the frontier reaches",
            ("subject", "intervention", "below the frontier"),
            [
                [point.name, name, str(gap)]
                for point in every
                for name, gap in sorted(
                    _gaps(point).items(),
                    key=lambda item: item[1].value if item[1].known else inf,
                )
            ],
            label_columns=2,
        ),
        draw=lambda: _draw_distances({p.name: _gaps(p) for p in shown}),
    )


def _gaps(point: Point) -> dict[str, Interval]:
    """Return the distances by intervention, without the frontier itself."""
    remedies = {o.name: o for o in point.remedies if not o.entropy.chosen}
    options = {_PLAIN: point.reference} | remedies
    return {n: Interval.of(o.rows["reward"], "below") for n, o in options.items()}


def _distance_caption(every: Sequence[Point]) -> str:
    gaps = ((point, *pair) for point in every for pair in _gaps(point).items())
    cases = [case for case in gaps if case[2].known]
    under = sum(gap.low > 0 for _, _, gap in cases)
    point, name, furthest = max(cases, key=lambda case: case[2].value)
    where = f" at {point.name}" if len(every) > 1 else ""
    words = (
        f"{under} of {len(cases)} cases are below the frontier beyond noise: choosing "
        "tokens would give more reward at the same entropy. "
        f"{name}{where} is furthest below, by {furthest} reward per response."
    )
    plain = [gap.value for _, name, gap in cases if name == _PLAIN]
    return words + (f" Plain is {span(plain)} below." if len(plain) > 1 else "")


def _beyond(shown: Sequence[Point]) -> str:
    unknown = [[n for n, gap in _gaps(p).items() if not gap.known] for p in shown]
    names = by_place(shown, unknown)
    return f" Beyond the entropy that the frontier reaches: {names}." * bool(names)


def _draw_distances(series: Mapping[str, dict[str, Interval]]) -> Figure:
    every = (pair for gaps in series.values() for pair in gaps.items())
    names = _by_median((name, gap.value) for name, gap in every if gap.known)
    figure, ax = draw.canvas(max(2.0, 1.2 + row_height(len(series)) * len(names)))
    interval_rows(ax, names, series)
    ax.set_xlabel(f"below the frontier, {UNITS['reward']}")
    return draw.with_legend(figure, len(series) > 1)
