"""Passes of a mismatch: those of a comparison of corrections, and the tokens' texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entrometer.experiments.compare import plan as compare
from entrometer.experiments.influence.requests import DecodeTokens
from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.experiments.requests import Request, Subject


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """Passes for one update that an engine sampled."""

    compared: compare.PointPlan
    texts: DecodeTokens

    @property
    def name(self) -> str:
        """Checkpoint and update."""
        return f"{self.compared.checkpoint}, {self.compared.update}"

    @property
    def subject(self) -> Subject:
        """The policy that is updated."""
        return self.compared.subject

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        yield from self.compared.requests()
        yield self.texts


def plan(config: MismatchConfig) -> list[UpdatePlan]:
    """Return a plan per checkpoint and update; loads no model."""
    return [
        UpdatePlan(
            compared=point,
            texts=DecodeTokens(subject=point.subject, batch=point.plain.batch),
        )
        for point in compare.plan(config.compare)
    ]


def follow_up(
    config: MismatchConfig, points: Sequence[UpdatePlan], store: Path
) -> list[UpdatePlan]:
    """Return the plans with the corrections' steps added."""
    compared = compare.follow_up(config.compare, [p.compared for p in points], store)
    return [
        replace(point, compared=with_trials)
        for point, with_trials in zip(points, compared, strict=True)
    ]
