"""A user's own loss compared with one of ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.conformance.difference import (
    FLOAT64,
    TokenDifference,
    apart,
    most_different,
    worst,
)
from entrometer.conformance.own_function import Loss, coefficients
from entrometer.conformance.reasons import judge
from entrometer.conformance.scenarios import Scenario
from entrometer.interventions import Intervention


@dataclass(frozen=True)
class Comparison:
    """How a user's loss differs from one of ours."""

    loss: str  #: Ours.
    verdict: str
    reason: str
    alpha: float  #: Largest relative difference of α over all batches.
    gamma: float  #: Largest relative difference of γ over all batches.
    rest: float  #: Largest relative difference that the reason leaves.
    batches: dict[str, float]  #: Largest relative difference, by batch.
    worst: str  #: The batch that differs most.
    tokens: list[TokenDifference]  #: Its tokens that differ most.


def compare(
    own: Intervention, function: Loss, batches: Sequence[Scenario]
) -> Comparison:
    """Return how a user's loss differs from ours, on frozen batches."""
    ours = [own.coefficients(s.tables) for s in batches]
    theirs = [coefficients(function, s) for s in batches]
    each = [apart(x, y) for x, y in zip(ours, theirs, strict=True)]
    total = worst(each)
    judged = judge(own, batches, ours, theirs, tolerance=FLOAT64)
    largest = max(range(len(each)), key=lambda i: each[i].largest)
    different = each[largest].largest > FLOAT64
    tables = batches[largest].tables
    return Comparison(
        str(own),
        judged.verdict,
        judged.reason,
        total.alpha,
        total.gamma,
        judged.rest,
        {s.name: x.largest for s, x in zip(batches, each, strict=True)},
        batches[largest].name,
        most_different(tables, ours[largest], theirs[largest]) if different else [],
    )
