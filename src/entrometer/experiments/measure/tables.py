"""Tables of a measurement, read from a store, and the estimates made from them."""

# Axes: K tokens of all responses (layout: Responses).

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from entrometer import passes
from entrometer.estimators import (
    Baseline,
    Curvatures,
    Linearised,
    Per,
    PositionFit,
    Responses,
    RidgeFit,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    constant_features,
    entropy_change,
    linear_statistics,
    linear_term,
    prefix_features,
    quadratic_statistics,
    quadratic_term,
)
from entrometer.experiments.measure.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.requests import Request, read_draws
from entrometer.runs import Rollouts
from entrometer.runs.columns import Table, read_columns, read_table

PERS: tuple[Per, ...] = ("token", "sequence")


class Estimator(NamedTuple):
    """How a change is estimated: the importance weighting, and its baseline if any."""

    weighting: Weighting
    baseline_name: str  #: `none` without a baseline.
    baseline: Baseline | None

    @property
    def options(self) -> dict[str, Any]:
        """Arguments `weighting` and `baseline` of `change_statistics` and its like."""
        return {"weighting": self.weighting, "baseline": self.baseline}


@dataclass(frozen=True, eq=False)
class EvaluationBatch:
    """The evaluation batch of a checkpoint, with S and H of every token."""

    point: CheckpointPlan
    rollouts: Rollouts
    responses: Responses
    here: Tables  #: S and H by a forward pass, before any step.
    again: Tables
    """S and H of the same parameters by another pass; the difference is rounding."""
    estimators: tuple[Estimator, ...]


@dataclass(frozen=True, eq=False)
class UpdateEffect:
    """What one update does to S and H of the evaluation batch."""

    batch: EvaluationBatch
    plan: UpdatePlan
    tangents: Tangents  #: Derivatives of S and H along the step.
    history: Tangents
    """Derivatives along the part of the step that is momentum."""
    there: dict[float, Tables]
    """S and H after the step, by learning rate in ascending order."""
    second_order: tuple[Tables, Tangents, Curvatures] | None
    """S, H and derivatives of the first responses; None without a curvature."""

    @property
    def names(self) -> dict[str, Any]:
        """Columns `checkpoint`, `update` and `precision` of the update's rows."""
        point = self.batch.point
        names = {"checkpoint": point.name, "update": self.plan.name}
        return names | {"precision": point.subject.precision}

    def labels(self, estimator: Estimator, per: Per) -> dict[str, Any]:
        """Return `names` and the columns `weighting`, `baseline` and `per`."""
        weighting, baseline, _ = estimator
        labels = {"weighting": weighting.value, "baseline": baseline, "per": per}
        return self.names | labels

    def slope(
        self, estimator: Estimator, per: Per, tangents: Tangents | None = None
    ) -> Linearised:
        """Return $h'$ along the update, or along another direction by its tangents."""
        r, here, v = self.batch.responses, self.batch.here, tangents or self.tangents
        sums = linear_statistics(r, here, v, **estimator.options)
        return linear_term(sums, per=per)

    def change(self, estimator: Estimator, per: Per, there: Tables) -> Linearised:
        """Return entropy's change from the batch's S and H to `there`, after a step."""
        r, here = self.batch.responses, self.batch.here
        sums = change_statistics(r, here, there, **estimator.options)
        return entropy_change(sums, per=per)

    def slope_and_curvature(
        self, estimator: Estimator, per: Per
    ) -> tuple[Linearised, Linearised] | None:
        """Return entropy's $h'$ and $h''$ on the first responses; None if absent."""
        if self.second_order is None:
            return None
        tables, tangents, curvatures = self.second_order
        responses, estimator = self._first(estimator, tables.S.size)
        sums = quadratic_statistics(
            responses, tables, tangents, curvatures, **estimator.options
        )
        return linear_term(sums, per=per), quadratic_term(sums, per=per)

    def rounding(self, estimator: Estimator, per: Per) -> Linearised | None:
        """Return the change between two computations of the same S and H.

        None if S and H were computed in only one way.
        """
        if self.batch.point.subject.precision != "mixed":
            return self.change(estimator, per, self.batch.again)
        # There the pass along directions has products in bfloat16, which finite changes
        # have not. The second-order pass has none either.
        if self.second_order is None:
            return None
        again = self.second_order[0]
        responses, estimator = self._first(estimator, again.S.size)
        here = Tables(*(x[: again.S.size] for x in self.batch.here))
        sums = change_statistics(responses, here, again, **estimator.options)
        return entropy_change(sums, per=per)

    def _first(self, estimator: Estimator, K: int) -> tuple[Responses, Estimator]:
        """Return the responses with the first K tokens, and the estimator for them."""
        r = self.batch.responses
        # Shards hold whole responses, so the first K tokens end with a response.
        count = int(np.searchsorted(r.start, K))
        first = {"prompt": r.prompt[:count], "start": r.start[: count + 1]}
        weight = None if r.weight is None else r.weight[:count]
        responses = Responses(**first, weight=weight)
        # The baseline of the whole batch: fitting one on fewer responses would change
        # the estimator whose slope this curvature is compared with.
        if estimator.baseline is not None:
            shorter = Baseline(*(x[:K] for x in estimator.baseline))
            estimator = estimator._replace(baseline=shorter)
        return responses, estimator


def read_evaluation_batch(point: CheckpointPlan, store: Path) -> EvaluationBatch:
    """Return the evaluation batch of a checkpoint."""
    rollouts = read_draws(point.draws, store)
    here = _read(Tables, point.here, store)
    responses = passes.layout(rollouts, here.S)
    return EvaluationBatch(
        point=point,
        rollouts=rollouts,
        responses=responses,
        here=here,
        # The jvp pass also writes its primal S and H.
        again=_read(Tables, point.along, store),
        estimators=tuple(_estimators(responses, here)),
    )


def read_update_effect(batch: EvaluationBatch, d: int, store: Path) -> UpdateEffect:
    """Return what the d-th update of the plan does to the evaluation batch."""
    plan = batch.point.updates[d]
    # One jvp pass has the columns of all updates, numbered.
    shards = [read_columns(request.path(store)) for request in batch.point.along]
    tangents, history = (
        Tangents(
            dS=np.concatenate([shard[f"dS_{name}"] for shard in shards]),
            dH=np.concatenate([shard[f"dH_{name}"] for shard in shards]),
        )
        for name in (f"{d}", f"history_{d}")
    )
    second_order = (
        (
            _read(Tables, plan.curvature, store),
            _read(Tangents, plan.curvature, store),
            _read(Curvatures, plan.curvature, store),
        )
        if plan.curvature
        else None
    )
    there = {
        eta: _read(Tables, plan.changes[eta], store) for eta in sorted(plan.changes)
    }
    return UpdateEffect(batch, plan, tangents, history, there, second_order)


def _estimators(responses: Responses, here: Tables) -> Iterator[Estimator]:
    yield Estimator(Weighting.SEQUENCE, "none", None)
    yield Estimator(Weighting.PER_DECISION, "none", None)
    longest = int(responses.length.max())
    fit = PositionFit.of(responses, here, batch=0, positions=longest).solve()
    yield Estimator(Weighting.DOUBLY_ROBUST, "position", fit.predict(responses))
    for name, features in {
        "constant": constant_features(responses),
        "prefix": prefix_features(responses, here),
    }.items():
        baseline = RidgeFit.of(responses, here, features).solve()
        predicted = baseline.predict(responses, features)
        yield Estimator(Weighting.DOUBLY_ROBUST, name, predicted)


def _read(kind: type[Table], requests: Sequence[Request], store: Path) -> Table:
    return read_table(kind, [request.path(store) for request in requests])
