"""pass@k, format, length and entropy of each checkpoint, and their changes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.evaluation.plan import CheckpointPlan
from entrometer.experiments.requests import read_draws
from entrometer.experiments.result_fields import estimate_fields
from entrometer.passes import layout
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables.evaluation import Evaluated, EvaluationTables

_NO_CHANGE = Estimate(math.nan, math.nan, math.nan, math.nan, math.nan, 0)


class Graded(NamedTuple):
    """All responses of a checkpoint, with what was measured on them."""

    rollouts: Rollouts
    grades: dict[str, np.ndarray]
    """Columns `answer`, `format` and `truncated`, one row per response."""
    tables: Tables  #: S and H of every token.


def collect(
    config: EvalConfig, points: Sequence[CheckpointPlan], store: Path
) -> EvaluationTables:
    """Return one row per checkpoint and quantity, from a store with every pass."""
    tables = EvaluationTables()
    first: dict[str, Linearised] = {}
    for point in points:
        sums = statistics(read_graded(point, store))
        quantities = measures(sums, config.all_ks)
        first = first or quantities
        for name, x in quantities.items():
            # An interval of a share must stay within 0 and 1.
            is_share = name not in ("length", "entropy")
            value = share_estimate(x) if is_share else x.estimate()
            # The first checkpoint would differ from itself by exactly 0.
            change = _NO_CHANGE if x is first[name] else change_from(first[name], x)
            tables.results.append(
                Evaluated(
                    checkpoint=point.name,
                    step=point.steps,
                    quantity=name,
                    **estimate_fields("value", value),
                    **estimate_fields("change", change),
                    prompts=sums.prompts,
                    responses=int(sums.total("responses")),
                )
            )
    return tables


def change_from(first: Linearised, last: Linearised) -> Estimate:
    """Return `last` - `first`; no error or interval if all problems change equally."""
    change = (last - first).estimate()
    # If every problem changes equally, the sample does not show its spread. Its
    # standard error is then not exactly 0, because means of equal numbers round.
    if change.standard_error > 1e-12 * max(1.0, abs(last.value)):
        return change
    return replace(change, standard_error=math.nan, low=math.nan, high=math.nan)


def read_graded(point: CheckpointPlan, store: Path) -> Graded:
    """Return a checkpoint's responses, their grades, and S and H of their tokens."""
    shards = [read_columns(request.path(store)) for request in point.grades]
    return Graded(
        rollouts=read_draws(point.draws, store),
        grades={name: np.concatenate([s[name] for s in shards]) for name in shards[0]},
        tables=read_table(Tables, [request.path(store) for request in point.here]),
    )


def statistics(graded: Graded) -> PromptSums:
    """Return sums by problem: responses, correct, format, truncated, T and H."""
    responses = layout(graded.rollouts)
    return PromptSums.of(
        responses.prompt,
        responses=np.ones(responses.count),
        # A response is correct if its answer scores 1: partial credit is no pass.
        correct=(graded.grades["answer"] == 1).astype(float),
        format=graded.grades["format"],
        truncated=graded.grades["truncated"],
        T=responses.length,
        H=responses.total(graded.tables.H),
    )


def measures(sums: PromptSums, ks: Sequence[int]) -> dict[str, Linearised]:
    """Return pass@k, format, truncation, length and entropy by name, in table order."""
    return {
        **{f"pass_at_{k}": pass_at_k(sums, k) for k in ks},
        "format_rate": per_response(sums, "format"),
        "truncated": per_response(sums, "truncated"),
        "length": per_response(sums, "T"),
        "entropy": entropy(sums),
    }


def per_response(sums: PromptSums, column: str) -> Linearised:
    r"""Return the mean of a column over responses, $\sum x/\sum n$, with its error."""
    n = sums.total("responses")
    mean = sums.total(column) / n
    # A ratio of two random sums: both contribute to the variance.
    return linearise(sums, mean, {column: 1 / n, "responses": -mean / n})
