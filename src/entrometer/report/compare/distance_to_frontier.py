"""How far each remedy stays below the frontier."""

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from entrometer.report.compare.interval_rows import (
    MOST,
    draw_rows,
    row_height,
)
from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Estimate,
    Point,
    by_place,
    estimate,
    idle_words,
    points,
)
from entrometer.report.numbers import number, with_interval
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table

_PLAIN = "plain Dr-GRPO"


def distance_to_frontier(runs: Sequence[CompareRun]) -> Plot | None:
    """Intervals by remedy, the one nearest to the frontier at the top."""
    every = points(runs)
    found = [p for p in every if any(gap.known for gap in _gaps(p).values())]
    if not found:
        return None
    some = spread(found, MOST)
    return Plot(
        key="below-frontier",
        title="Below the frontier",
        caption=_caption(found)
        + _beyond(some)
        + idle_words(some, named=False)
        + drawn(some, found),
        description=(
            "A row for each remedy and for plain Dr-GRPO, the one nearest to the "
            "frontier at the top: reward by which its prediction stays below the "
            "held-out frontier at the same change of entropy, with 95% intervals; each "
            "point has a colour and a marker of its own."
        ),
        table=table(
            "Reward a response by which a prediction stays below the held-out frontier "
            "at its change of entropy, with 95% interval; – is beyond the entropy that "
            "the frontier reaches",
            ("subject", "remedy", "below the frontier"),
            [
                [point.name, name, with_interval(*gap)]
                for point in found
                for name, gap in _sorted(_gaps(point))
            ],
            words=2,
        ),
        draw=lambda: _draw(some),
    )


def _gaps(point: Point) -> dict[str, Estimate]:
    """By remedy; the frontier itself is left out."""
    own = [o for o in point.remedies if not o.chosen]
    return {_PLAIN: estimate(point.reference.reward, "below")} | {
        o.name: estimate(o.reward, "below") for o in own
    }


def _sorted(gaps: dict[str, Estimate]) -> list[tuple[str, Estimate]]:
    return sorted(
        gaps.items(), key=lambda item: item[1].value if item[1].known else float("inf")
    )


def _caption(found: Sequence[Point]) -> str:
    cases = [
        (point, name, gap)
        for point in found
        for name, gap in _gaps(point).items()
        if gap.known
    ]
    under = sum(gap.low > 0 for _, _, gap in cases)
    point, name, furthest = max(cases, key=lambda case: case[2].value)
    where = f" at {point.name}" if len(found) > 1 else ""
    told = (
        f"{under} of {len(cases)} stay below the frontier beyond noise: more reward "
        f"could be had at their entropy by choosing tokens. Furthest below is "
        f"{name}{where}, by {with_interval(*furthest)}."
    )
    plain = [gap.value for _, name, gap in cases if name == _PLAIN]
    if len(plain) > 1:
        told += f" Plain is {_span(plain)} below."
    return told


def _span(values: Sequence[float]) -> str:
    low, high = number(min(values), 2), number(max(values), 2)
    return low if low == high else f"{low} to {high}"


def _beyond(some: Sequence[Point]) -> str:
    """A sentence for those whose entropy the frontier does not reach."""
    names = by_place(
        some,
        [[n for n, gap in _gaps(point).items() if not gap.known] for point in some],
    )
    return f" Beyond the entropy that the frontier reaches: {names}." * bool(names)


def _draw(some: Sequence[Point]) -> Figure:
    by_name: dict[str, list[float]] = {}
    series = {p.name: _gaps(p) for p in some}
    for gaps in series.values():
        for name, gap in gaps.items():
            if gap.known:
                by_name.setdefault(name, []).append(gap.value)
    names = sorted(by_name, key=lambda name: median(by_name[name]))
    height = max(2.0, 1.2 + row_height(len(some)) * len(names))
    figure = Figure(figsize=(9.0, height))
    ax = figure.subplots()
    draw_rows(ax, names, series)
    ax.set_xlabel(f"below the frontier, {UNITS['reward']}")
    if len(some) > 1:
        legend_above(figure)
    return figure
