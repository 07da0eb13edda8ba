"""pass@k, format, length and entropy of each checkpoint, and their changes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entrometer.estimators import (
    Estimate,
    Linearised,
    PromptSums,
    Tables,
    entropy,
    pass_at_k,
    share_estimate,
)
from entrometer.estimators.estimate import linearise
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.evaluation.plan import CheckpointPlan
from entrometer.experiments.requests import read_draws
from entrometer.passes import layout
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables.evaluation import Evaluated, EvaluationTables


class Graded(NamedTuple):
    """All responses of a checkpoint, with what was measured on them."""

    rollouts: Rollouts
    grades: dict[str, np.ndarray]
    """Columns `answer`, `format` and `truncated`, one row per response."""

    tables: Tables


class Measure(NamedTuple):
    """A quantity of one checkpoint, with the influence of each problem on it."""

    by_prompt: Linearised
    is_share: bool

    def estimate(self) -> Estimate:
        """Return value and interval; the interval of a share stays within 0 and 1."""
        if self.is_share:
            return share_estimate(self.by_prompt)
        return self.by_prompt.estimate()

    def change_from(self, first: "Measure") -> Estimate:
        """Return the difference from the first checkpoint, paired by problem."""
        change = (self.by_prompt - first.by_prompt).estimate()
        # Not exactly 0: means of equal numbers round.
        if change.standard_error > 1e-12 * max(1.0, abs(self.by_prompt.value)):
            return change
        return replace(change, standard_error=math.nan, low=math.nan, high=math.nan)


def collect(
    config: EvalConfig, points: Sequence[CheckpointPlan], store: Path
) -> EvaluationTables:
    """Return one row per checkpoint and quantity, from a store with every pass."""
    tables = EvaluationTables()
    first: dict[str, Measure] = {}
    for point in points:
        sums = statistics(read_graded(point, store))
        quantities = measures(sums, config.all_ks)
        first = first or quantities
        for name, measure in quantities.items():
            change: dict[str, Any] = dict.fromkeys(
                ("change", "change_se", "change_low", "change_high"), math.nan
            )
            if measure is not first[name]:
                change = estimate_fields("change", measure.change_from(first[name]))
            tables.results.append(
                Evaluated(
                    checkpoint=point.name,
                    step=point.steps,
                    quantity=name,
                    **estimate_fields("value", measure.estimate()),
                    **change,
                    prompts=sums.prompts,
                    responses=int(sums.total("responses")),
                )
            )
    return tables


def read_graded(point: CheckpointPlan, store: Path) -> Graded:
    """Return the responses of a checkpoint with their grades and tables."""
    shards = [read_columns(request.path(store)) for request in point.grades]
    return Graded(
        rollouts=read_draws(point.draws, store),
        grades={name: np.concatenate([s[name] for s in shards]) for name in shards[0]},
        tables=read_table(Tables, [request.path(store) for request in point.here]),
    )


def statistics(graded: Graded) -> PromptSums:
    r"""Return sums per problem of everything that is reported.

    A response is correct if its answer scores 1: partial credit is no pass.
    """
    responses = layout(graded.rollouts)
    return PromptSums.of(
        responses.prompt,
        responses=np.ones(responses.count),
        correct=(graded.grades["answer"] == 1).astype(float),
        format=graded.grades["format"],
        truncated=graded.grades["truncated"],
        T=responses.length,
        H=responses.total(graded.tables.H),
    )


def measures(sums: PromptSums, ks: Sequence[int]) -> dict[str, Measure]:
    """Return every quantity of a checkpoint by name, in the order of the table."""
    return {
        **{f"pass_at_{k}": Measure(pass_at_k(sums, k), True) for k in ks},
        "format_rate": Measure(per_response(sums, "format"), True),
        "truncated": Measure(per_response(sums, "truncated"), True),
        "length": Measure(per_response(sums, "T"), False),
        "entropy": Measure(entropy(sums), False),
    }


def per_response(sums: PromptSums, column: str) -> Linearised:
    r"""Return the mean of a statistic over responses, $\sum x/\sum n$."""
    n = sums.total("responses")
    mean = sums.total(column) / n
    return linearise(sums, mean, {column: 1 / n, "responses": -mean / n})
