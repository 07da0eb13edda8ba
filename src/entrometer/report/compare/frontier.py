"""Change of reward against change of entropy: the frontier, and who stays below it."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from entrometer.report.compare.frontier_panel import (
    draw_panel,
    places,
    shown,
)
from entrometer.report.compare.frontier_table import frontier_table
from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Option,
    Point,
    estimate,
    idle_words,
    points,
)
from entrometer.report.numbers import with_interval
from entrometer.report.panels import panels
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import drawn, spread

MOST = 4


def frontier(runs: Sequence[CompareRun]) -> Plot | None:
    """A panel a point: remedies as they turned out, below the best choice of tokens."""
    found = [p for p in points(runs) if len(shown(places(_marked(p))))]
    if not found:
        return None
    some = spread(found, MOST)
    return Plot(
        key="frontier",
        title="Reward against entropy: the frontier",
        caption=_caption(found) + idle_words(some) + drawn(some, found),
        description=(
            "Change of expected reward upwards, change of entropy to the right, a "
            "panel for each point. A line is the frontier on held-out prompts, with "
            "95% intervals; a dotted one is the frontier by the prompts that chose "
            "its tokens, which is too good. A star is plain Dr-GRPO, a circle each "
            "remedy, with 95% intervals both ways: filled as observed, open where it "
            "is only predicted. Names stand where there is room. Faint lines are "
            "predictions over the strengths of a remedy. An arm or a line that "
            "meets the edge goes on."
        ),
        table=frontier_table(found),
        draw=lambda: _draw(some),
    )


def _caption(found: Sequence[Point]) -> str:
    told = "Further up is more reward, further right more entropy. "
    if len(found) == 1:
        entropy, reward = (with_interval(*found[0].reference.change(o)) for o in UNITS)
        told += (
            f"Plain Dr-GRPO, the star, changes entropy by {entropy} nats a token and "
            f"reward by {reward}. "
        )
    gaps = [
        gap
        for point in found
        for option in point.remedies
        if not option.chosen and (gap := estimate(option.reward, "below")).known
    ]
    if gaps:
        under = sum(gap.low > 0 for gap in gaps)
        over = sum(gap.high < 0 for gap in gaps)
        counted = ", counted at each point," if len(found) > 1 else ""
        told += (
            f"Of {len(gaps)} remedies{counted} whose entropy the held-out frontier "
            f"reaches {under} are predicted below it and {over} above it beyond noise. "
        )
    return told + (
        "The arms are those of each change by itself; differences from plain are "
        "surer, and have a figure of their own."
    )


def _marked(point: Point) -> list[Option]:
    return [point.reference, *point.remedies]


def _draw(some: Sequence[Point]) -> Figure:
    figure, parts = panels(
        {p.subject: p for p in some}, {p.subject: p.name for p in some}, height=4.1
    )
    for ax, _, point in parts:
        draw_panel(ax, point)
    legend_above(figure)
    return figure
