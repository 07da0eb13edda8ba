"""What each remedy changes against plain Dr-GRPO."""

from collections.abc import Sequence
from math import nan
from statistics import median

from matplotlib.figure import Figure

from entrometer.report.compare.agreement import gain
from entrometer.report.compare.interval_rows import (
    MOST,
    draw_rows,
    row_height,
)
from entrometer.report.compare.points import (
    UNITS,
    CompareRun,
    Estimate,
    Option,
    Point,
    estimate,
    idle_words,
    points,
)
from entrometer.report.numbers import percent, with_interval
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, PAPER, legend_above
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table


def gains(runs: Sequence[CompareRun]) -> Plot | None:
    """Intervals by remedy, the one that keeps most entropy at the top."""
    found = [p for p in points(runs) if any(_known(o) for o in p.remedies)]
    if not found:
        return None
    some = spread(found, MOST)
    return Plot(
        key="gains",
        title="Gain against plain",
        caption=_caption(found) + idle_words(some, named=False) + drawn(some, found),
        description=(
            "A row for each remedy, the one that keeps most entropy at the top: its "
            "change less that of plain Dr-GRPO, of entropy on the left and of reward "
            "on the right. Filled markers with 95% intervals are observed, open ones "
            "predicted by influence, where a step was taken by the half of the prompts "
            "that does not observe it; each point has a colour and a marker of its own."
        ),
        table=table(
            "Change less that of plain Dr-GRPO, paired, with 95% intervals, of entropy "
            "in nats per token and of reward per response; share of the tokens whose "
            "gradient differs from plain's. Where a step was taken, one half of the "
            "prompts predicts and the other observes",
            (
                *("subject", "remedy", "tokens", "entropy, predicted"),
                *("entropy, observed", "reward, predicted", "reward, observed"),
            ),
            [
                [
                    *(point.name, option.name, percent(option.entropy.changed)),
                    *(
                        with_interval(*found)
                        for objective in UNITS
                        for found in (
                            _predicted(point, option, objective),
                            _observed(point, option, objective),
                        )
                    ),
                ]
                for point in found
                for option in sorted(point.remedies, key=_downwards)
            ],
            words=2,
        ),
        draw=lambda: _draw(some),
    )


def _known(option: Option) -> bool:
    return option.gain("entropy").known and option.gain("reward").known


def _downwards(option: Option) -> float:
    gain = option.gain("entropy")
    return -gain.value if gain.known else float("inf")


def _caption(found: Sequence[Point]) -> str:
    # The frontier is no setting that anyone could take.
    cases = [
        (point.name, option)
        for point in found
        for option in point.remedies
        if _known(option) and not option.chosen
    ]
    more = [case for case in cases if case[1].gain("entropy").low > 0]
    less = [case for case in cases if case[1].gain("entropy").high < 0]
    dear = [case for case in more if case[1].gain("reward").high < 0]
    told = (
        f"Of {len(cases)} cases, a remedy at a point each, {len(more)} keep entropy "
        f"beyond noise, {len(dear)} of them at a cost in reward beyond noise, and "
        f"{len(less)} lose it. "
    )
    if more:
        name, best = max(more, key=lambda case: case[1].gain("entropy").value)
        where = f" at {name}" if len(found) > 1 else ""
        entropy, reward = (with_interval(*best.gain(o)) for o in UNITS)
        told += (
            f"Most is kept by {best.name}{where}: {entropy} nats a token, with "
            f"{reward} of reward. "
        )
    if any(option.observed for _, option in cases):
        told += (
            "Open markers are predictions by the half of the prompts that does not "
            "observe. "
        )
    return f"{told}Where nothing differs, one interval in twenty misses zero by chance."


def _predicted(point: Point, option: Option, objective: str) -> Estimate:
    """The prediction, on prompts that do not observe the step if it was taken."""
    row = option.row(objective)
    if not option.observed:
        return estimate(row, "gain")
    if option.chosen:
        # The other half chose its tokens, and would praise its own choice.
        return Estimate(nan, nan, nan)
    return gain(row, point.reference.row(objective)).predicted


def _draw(some: Sequence[Point]) -> Figure:
    by_name: dict[str, list[float]] = {}
    for point in some:
        for option in filter(_known, point.remedies):
            by_name.setdefault(option.name, []).append(_downwards(option))
    names = sorted(by_name, key=lambda name: median(by_name[name]))
    height = max(2.4, 1.3 + row_height(len(some)) * len(names))
    figure = Figure(figsize=(9.0, height))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, objective in zip(axes, UNITS, strict=True):
        filled, hollow = (
            {p.name: {o.name: of(p, o, objective) for o in p.remedies} for p in some}
            for of in (_observed, _predicted)
        )
        draw_rows(ax, names, filled, hollow)
        ax.set_xlabel(f"gain in {objective}, {UNITS[objective]}")
    axes[0].plot(
        *([], [], "o"),
        color=GREY,
        markerfacecolor=PAPER,
        markeredgewidth=0.7,
        markersize=6.5,
        label="open: predicted by influence",
    )
    legend_above(figure)
    return figure


def _observed(_: Point, option: Option, objective: str) -> Estimate:
    return estimate(option.row(objective), "observed_gain")
