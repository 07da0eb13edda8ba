"""From shards to one row a checkpoint: what is measured, and how it changed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from entrometer.estimators import (
    Estimate,
    Linearised,
    PromptSums,
    entropy,
    pass_at_k,
    share_estimate,
)
from entrometer.estimators.estimate import linearise
from entrometer.evaluation.shards import Shard
from entrometer.passes import layout


@dataclass(frozen=True)
class Row:
    """A checkpoint's results, with the problems as independent units."""

    step: int
    """Optimizer steps behind it."""

    prompts: int
    """Number of problems."""

    responses: int
    """Number of responses to all of them."""

    measures: Mapping[str, Estimate]
    """By name: `pass_at_1` and further k, `format_rate`, `truncated` (all from 0 to
    1), `length` (tokens a response) and `entropy` (nats a token)."""

    changes: Mapping[str, Estimate]
    """The same less the first checkpoint's, paired by problem; of that one, none.

    NaN for all but the value where every problem changed alike, above all by 0: such
    a sample does not tell its own spread.
    """


class Measure(NamedTuple):
    """A quantity of one checkpoint, still with the pull of each problem."""

    of_prompts: Linearised
    is_share: bool

    def estimate(self) -> Estimate:
        """Value and interval, which for a share stays within 0 and 1."""
        if self.is_share:
            return share_estimate(self.of_prompts)
        return self.of_prompts.estimate()

    def change_from(self, first: "Measure") -> Estimate:
        """Value and interval of the paired difference."""
        change = (self.of_prompts - first.of_prompts).estimate()
        # Not exactly 0: means of equal numbers round.
        if change.standard_error > 1e-12 * max(1.0, abs(self.of_prompts.value)):
            return change
        return replace(change, standard_error=math.nan, low=math.nan, high=math.nan)


def shard_statistics(shard: Shard) -> PromptSums:
    r"""Per-prompt sums of all that is reported: $n, c, T, \sum H$ and the rest.

    Right is a reward of 1: partial credit is no pass.
    """
    responses = layout(shard.rollouts)
    return PromptSums.of(
        responses.prompt,
        responses=np.ones(responses.count),
        correct=(shard.rollouts.reward == 1).astype(float),
        format=shard.format,
        truncated=shard.truncated.astype(float),
        T=responses.length,
        H=responses.total(shard.tables.H),
    )


def measures(sums: PromptSums, ks: Sequence[int]) -> dict[str, Measure]:
    """Every quantity of a checkpoint, in the order of the table."""
    return {
        **{f"pass_at_{k}": Measure(pass_at_k(sums, k), True) for k in ks},
        "format_rate": Measure(per_response(sums, "format"), True),
        "truncated": Measure(per_response(sums, "truncated"), True),
        "length": Measure(per_response(sums, "T"), False),
        "entropy": Measure(entropy(sums), False),
    }


def per_response(sums: PromptSums, column: str) -> Linearised:
    r"""A statistic's mean over responses, $\sum x/\sum n$."""
    n = sums.total("responses")
    mean = sums.total(column) / n
    return linearise(sums, mean, {column: 1 / n, "responses": -mean / n})


def rows(
    checkpoints: Sequence[tuple[int, PromptSums]], ks: Sequence[int]
) -> tuple[Row, ...]:
    """One row a checkpoint, with its changes since the first."""
    found = [(step, sums, measures(sums, ks)) for step, sums in checkpoints]
    first = found[0][2]
    return tuple(
        Row(
            step=step,
            prompts=sums.prompts,
            responses=int(sums.total("responses")),
            measures={name: m.estimate() for name, m in now.items()},
            changes={name: m.change_from(first[name]) for name, m in now.items()}
            if i > 0
            else {},
        )
        for i, (step, sums, now) in enumerate(found)
    )
