"""A row for each loss and framework: whether they agree, and if not why."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from entrometer.conformance.difference import FLOAT32, FLOAT64, apart, worst
from entrometer.conformance.frameworks import (
    Answer,
    answers,
    framework_of,
    version_of,
)
from entrometer.conformance.reasons import judge
from entrometer.conformance.scenarios import Scenario, scenarios
from entrometer.interventions import Intervention, intervention, intervention_names

LACKS = "cannot express"


@dataclass(frozen=True)
class Row:
    """One loss of ours and the same loss by a framework's own code."""

    loss: str  #: Ours, with the settings that differ from their defaults.
    framework: str
    version: str
    settings: str  #: Of the framework's loss.
    alpha: float  #: Largest relative difference of α over all batches.
    gamma: float  #: Largest relative difference of γ over all batches.
    verdict: str  #: `agrees`, `other normaliser`, `differs` or `cannot express`.
    reason: str  #: Why, as far as it can be named.
    rest: float  #: Largest relative difference that the reason leaves.
    tolerance: float  #: Largest relative difference that counts as equal.


ACTING = {
    "adaptive-bonus": "adaptive-bonus:target=9",
    "clip-cov": "clip-cov:rho=1,lower=0.2,upper=0.9,low=0.2,high=0.2",
    "dppo": "dppo:low=0.05,high=0.05",
    "gspo": "gspo:low=0.05,high=0.1",
    "high-entropy": "high-entropy:rho=0.37",
    "kl-cov": "kl-cov:rho=0.1",
    "mis": "mis:least=0.5,most=2",
}
"""Settings with which a loss acts on these batches; others have their defaults.

Clip-Cov draws at random, which is the same only if every candidate is drawn. The
quantile of `high-entropy` lies between two tokens, because TRL rounds it to float32.
"""


def compared_losses(names: Sequence[str] = ()) -> list[Intervention]:
    """Return the losses to compare, all of them by default."""
    if names:
        return [intervention(text) for text in names]
    return [intervention(ACTING.get(name, name)) for name in intervention_names()]


def rows(
    framework: str,
    site: Path | None = None,
    losses: Sequence[Intervention] = (),
    batches: Sequence[Scenario] = (),
) -> list[Row]:
    """Return a row for each loss of a framework."""
    about = framework_of(framework)
    chosen = losses or compared_losses()
    batches = batches or scenarios()
    version = version_of(about, site)
    found = answers(about, site, chosen, batches)
    return [
        _row(own, about.name, version, answer, batches)
        for own, answer in zip(chosen, found, strict=True)
    ]


def _row(
    own: Intervention,
    framework: str,
    version: str,
    answer: Answer,
    batches: Sequence[Scenario],
) -> Row:
    if answer.error:
        nan = float("nan")
        reason = "no such loss" if answer.error.startswith("KeyError") else answer.error
        return Row(str(own), framework, version, "", nan, nan, LACKS, reason, nan, nan)
    tolerance = FLOAT32 if answer.float32 else FLOAT64
    ours = [own.coefficients(s.tables) for s in batches]
    difference = worst(
        [apart(x, y) for x, y in zip(ours, answer.coefficients, strict=True)]
    )
    judged = judge(own, batches, ours, answer.coefficients, tolerance=tolerance)
    reason = judged.reason
    if answer.float32:
        reason = "; ".join(filter(None, [reason, answer.float32]))
    return Row(
        str(own),
        framework,
        version,
        answer.config,
        difference.alpha,
        difference.gamma,
        judged.verdict,
        reason,
        judged.rest,
        tolerance,
    )
