"""Tables of comparisons: the frontier's numbers, and how to get each intervention."""

from collections.abc import Iterator, Sequence

from entrometer.report import cells
from entrometer.report.compare.points import CompareRun, Point
from entrometer.report.numbers import MISSING, number, percent
from entrometer.report.table import Table, table
from entrometer.runs.tables.compare import Remedy

_HEADS = ("intervention", "published", "TRL", "verl", "differences")


def frontier_table(every: Sequence[Point]) -> Table:
    """Return every intervention at every strength, and the frontier at every price."""
    return table(
        "Changes of entropy Δh, nats per token, and of expected reward ΔJ, with 95% "
        "intervals: predicted by influence, and observed after the step if it was "
        "taken, both on the half of the prompts that evaluates; reward by which a "
        "prediction is below the held-out frontier at its change of entropy; share of "
        "the tokens whose gradient differs from plain Dr-GRPO, or that the frontier "
        "keeps",
        (
            *("subject", "intervention", "tokens", "predicted Δh", "observed Δh"),
            *("predicted ΔJ", "observed ΔJ", "below the frontier"),
        ),
        [row for point in every for row in _rows(point)],
        label_columns=2,
    )


def _rows(point: Point) -> Iterator[list[str]]:
    predicted, observed = cells.interval("predicted"), cells.interval("observed")
    for option in point.options:
        yield [
            *(point.name, option.name, percent(option.entropy.changed)),
            *(predicted(option.entropy), observed(option.entropy)),
            *(predicted(option.reward), observed(option.reward)),
            cells.interval("below")(option.reward),
        ]
    for place in point.frontier:
        price = number(place.price)
        yield [
            *(point.name, f"frontier, held out, price {price}", percent(place.kept)),
            *(cells.interval("entropy")(place), MISSING),
            *(cells.interval("reward")(place), MISSING, MISSING),
        ]
        yield [
            *(point.name, f"frontier, as fitted, price {price}", percent(place.kept)),
            *(number(place.fitted_entropy), MISSING),
            *(number(place.fitted_reward), MISSING, MISSING),
        ]


def remedies(runs: Sequence[CompareRun]) -> Table | None:
    """Return settings for TRL and verl at the strength that was tried."""
    return _settings(
        "How to get each intervention at the strength that was tried: with entrometer "
        "train --intervention, with settings of TRL and of verl, and how these differ",
        [remedy for remedy, tried in _remedies(runs).items() if tried],
    )


def strengths(runs: Sequence[CompareRun]) -> Table | None:
    """Return the same settings at the other strengths that were predicted."""
    return _settings(
        "How to get each intervention at the other strengths that were predicted",
        [remedy for remedy, tried in _remedies(runs).items() if not tried],
    )


def _remedies(runs: Sequence[CompareRun]) -> dict[Remedy, bool]:
    """Return the interventions of all runs, and whether each was tried."""
    tried: dict[Remedy, bool] = {}
    for run in runs:
        names = {o.settings for o in run.tables.outcomes if o.tried}
        for remedy in run.tables.remedies:
            tried[remedy] = tried.get(remedy, False) or remedy.settings in names
    return tried


def _settings(caption: str, rows: Sequence[Remedy]) -> Table | None:
    if not rows:
        return None
    return Table(
        caption=caption,
        heads=_HEADS,
        rows=tuple(
            tuple(text or MISSING for text in texts)
            for r in rows
            for texts in [(r.settings, r.source, r.trl, r.verl, r.differs)]
        ),
        label_columns=len(_HEADS),
        code=(0, 2, 3),
    )
