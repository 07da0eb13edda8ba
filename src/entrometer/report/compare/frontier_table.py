"""What the figure of the frontier draws, in numbers."""

from collections.abc import Iterator, Sequence

from entrometer.report.compare.points import Point, estimate
from entrometer.report.numbers import MISSING, number, percent, with_interval
from entrometer.report.table import Table, table


def frontier_table(found: Sequence[Point]) -> Table:
    """Every intervention at every strength, and the frontier at every price."""
    return table(
        "Changes of entropy Δh, nats a token, and of expected reward ΔJ, with 95% "
        "intervals: predicted by influence, and observed after the step where it was "
        "taken, both on the half of the prompts that judges; reward by which a "
        "prediction stays below the held-out frontier at its change of entropy; share "
        "of the tokens whose gradient differs from plain Dr-GRPO's, or that the "
        "frontier keeps",
        (
            *("subject", "intervention", "tokens", "predicted Δh", "observed Δh"),
            *("predicted ΔJ", "observed ΔJ", "below the frontier"),
        ),
        [row for point in found for row in _rows(point)],
        words=2,
    )


def _rows(point: Point) -> Iterator[list[str]]:
    for option in point.options:
        yield [
            *(point.name, option.name, percent(option.entropy.changed)),
            *(
                with_interval(*estimate(row, name))
                for row in (option.entropy, option.reward)
                for name in ("predicted", "observed")
            ),
            with_interval(*estimate(option.reward, "below")),
        ]
    for place in point.frontier:
        price = number(place.price)
        yield [
            *(point.name, f"frontier, held out, price {price}", percent(place.kept)),
            *(with_interval(*estimate(place, "entropy")), MISSING),
            *(with_interval(*estimate(place, "reward")), MISSING, MISSING),
        ]
        yield [
            *(point.name, f"frontier, as fitted, price {price}", percent(place.kept)),
            *(number(place.fitted_entropy), MISSING),
            *(number(place.fitted_reward), MISSING, MISSING),
        ]
