r"""Name why the coefficients of another implementation differ from ours.

A reason is a prediction of the other coefficients from ours: times the ratio of two
normalisers, with the statistics of each micro-batch, with another value of a setting,
with other tokens clipped, or with one more term. It is given only if the prediction is
right, to rounding, on every token of every batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.conformance.difference import apart
from entrometer.conformance.explanation import Coefficient, Reason, explain
from entrometer.conformance.normalisers import (
    ENTROPY,
    ENTROPY_BY_MICRO_BATCH,
    POLICY,
    POLICY_BY_MICRO_BATCH,
)
from entrometer.conformance.scenarios import Scenario
from entrometer.conformance.variants import relative_to, variants
from entrometer.interventions import Intervention
from entrometer.tokens import LossCoefficients

NO_ENTROPY_GRADIENT = "no gradient in the entropy"
AGREES, NORMALISER, DIFFERS = "agrees", "other normaliser", "differs"


@dataclass(frozen=True)
class Judgement:
    """Whether two implementations agree, and if not why."""

    verdict: str  #: `agrees`, `other normaliser` or `differs`.
    reason: str
    rest: float  #: Largest relative difference that the reason leaves.


def judge(
    own: Intervention,
    scenarios: Sequence[Scenario],
    ours: Sequence[LossCoefficients],
    theirs: Sequence[LossCoefficients],
    *,
    tolerance: float,
) -> Judgement:
    """Return whether the coefficients agree on all scenarios, and if not why."""
    apart_by = [apart(x, y).largest for x, y in zip(ours, theirs, strict=True)]
    largest = max(apart_by)
    if largest <= tolerance:
        return Judgement(AGREES, "", largest)
    if largest == float("inf"):
        return Judgement(DIFFERS, "coefficients that are no finite number", largest)
    why = find_reason(own, scenarios, theirs, tolerance=tolerance)
    if why is None:
        return Judgement(DIFFERS, "not named", largest)
    if why.rest > tolerance:
        text = f"{why.text}; what is left, {why.rest:.1g}, is not named"
        return Judgement(DIFFERS, text, why.rest)
    return Judgement(NORMALISER if why.normaliser_only else DIFFERS, why.text, why.rest)


def find_reason(
    intervention: Intervention,
    scenarios: Sequence[Scenario],
    theirs: Sequence[LossCoefficients],
    *,
    tolerance: float,
) -> Reason | None:
    """Return the simplest reason that predicts all coefficients.

    If none does, it is the one that comes closest, if it explains all but a thousandth;
    else None.
    """
    closest: Reason | None = None
    again = []
    for variant in variants(intervention, scenarios):
        ours = [variant.of(s) for s in scenarios]
        if variant.with_more:
            again.append((variant.named, ours))
        reason = _from(intervention, ours, scenarios, theirs, tolerance, simple=True)
        closest = _closer(closest, variant.named, reason)
        if closest.rest <= tolerance:
            return closest
    # A loss of ours with another setting is a simpler reason than another clip or term.
    for named, ours in again:
        reason = _from(intervention, ours, scenarios, theirs, tolerance, simple=False)
        closest = _closer(closest, named, reason)
        if closest.rest <= tolerance:
            return closest
    return closest if closest is not None and closest.rest <= 1e-3 else None


def _closer(closest: Reason | None, named: tuple[str, ...], more: Reason) -> Reason:
    """Return the reason that leaves less, of the closest and one from a variant."""
    if closest is not None and closest.rest <= more.rest:
        return closest
    normaliser_only = not named and more.normaliser_only
    return Reason((*named, *more.parts), more.rest, normaliser_only)


def _from(
    own: Intervention,
    ours: Sequence[LossCoefficients],
    scenarios: Sequence[Scenario],
    theirs: Sequence[LossCoefficients],
    tolerance: float,
    *,
    simple: bool,
) -> Reason:
    """Return the reason that comes closest from the coefficients of one variant."""
    alpha, gamma = (
        Coefficient(
            scenarios,
            [getattr(c, which) for c in ours],
            [getattr(c, which) for c in theirs],
        )
        for which in ("alpha", "gamma")
    )
    of_alpha = explain(
        alpha,
        relative_to(own, POLICY),
        relative_to(own, POLICY_BY_MICRO_BATCH),
        tolerance,
        normaliser_only=simple,
    )
    of_gamma = _explain_entropy(gamma, tolerance)
    return Reason(
        (*of_alpha.parts, *of_gamma.parts),
        max(of_alpha.rest, of_gamma.rest),
        of_alpha.normaliser_only and of_gamma.normaliser_only,
    )


def _explain_entropy(gamma: Coefficient, tolerance: float) -> Reason:
    has_ours = any(x.any() for x in gamma.ours)
    if has_ours and not any(x.any() for x in gamma.theirs):
        return Reason((NO_ENTROPY_GRADIENT,), 0.0, False)
    return explain(
        gamma, ENTROPY, ENTROPY_BY_MICRO_BATCH, tolerance, normaliser_only=True
    )
