"""The tables of a measurement, read from a store that has every pass of its plan."""

# Axes: K tokens of all responses (layout: Responses).

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    Baseline,
    Curvatures,
    PositionFit,
    Responses,
    RidgeFit,
    Tables,
    Tangents,
    Weighting,
    constant_features,
    prefix_features,
)
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.requests import Request, read_draws
from entrometer.runs import Rollouts
from entrometer.runs.columns import Table, read_columns, read_table
from entrometer.tasks import task


@dataclass(frozen=True, eq=False)
class Way:
    """A weighting, with the baseline that it needs."""

    weighting: Weighting
    baseline_name: str
    baseline: Baseline | None


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The evaluation batch of a checkpoint, as tables."""

    point: CheckpointPlan
    precision: str
    rollouts: Rollouts
    responses: Responses
    here: Tables
    again: Tables
    """The same parameters by another pass: what differs is rounding."""

    ways: tuple[Way, ...]
    prompt_texts: dict[int, str]
    """As they were asked, by prompt id."""


@dataclass(frozen=True, eq=False)
class Updated:
    """What an update does to the evaluation batch."""

    plan: UpdatePlan
    groups_with_signal: int
    groups: int
    """Prompt groups of the update batch."""

    tangents: Tangents
    history: Tangents
    """Derivatives along the part of the step that is momentum."""

    there: dict[float, Tables]
    """By learning rate."""

    curved: tuple[Responses, Tables, Tangents, Curvatures, tuple[Way, ...]] | None
    """The part that the curvature was measured on."""

    products: np.ndarray | None
    one_batch: np.ndarray | None


def evaluated(config: MeasureConfig, point: CheckpointPlan, store: Path) -> Evaluated:
    """The evaluation batch of a checkpoint."""
    rollouts = read_draws(point.draws, store)
    responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
    here = _table(Tables, point.here, store)
    return Evaluated(
        point=point,
        precision=config.precision,
        rollouts=rollouts,
        responses=responses,
        here=here,
        again=_table(Tables, point.along, store),
        ways=tuple(_ways(responses, here)),
        prompt_texts=_prompt_texts(config, rollouts),
    )


def updated(batch: Evaluated, update: UpdatePlan, d: int, store: Path) -> Updated:
    """What the d-th update of the plan does to it."""
    along = [read_columns(request.path(store)) for request in batch.point.along]
    products, one_batch = None, None
    if update.variance:
        products, one_batch = (
            np.stack(list(read_columns(r.path(store)).values()), axis=1)
            for r in update.variance
        )

    def tangents(name: str) -> Tangents:
        dS, dH = (
            np.concatenate([part[f"{column}_{name}"] for part in along])
            for column in ("dS", "dH")
        )
        return Tangents(dS=dS, dH=dH)

    with_signal, groups = update.step.read_batch(store).groups_with_signal
    return Updated(
        plan=update,
        groups_with_signal=with_signal,
        groups=groups,
        tangents=tangents(str(d)),
        history=tangents(f"history_{d}"),
        there={
            eta: _table(Tables, requests, store)
            for eta, requests in sorted(update.changes.items())
        },
        curved=_curved(batch, update, store) if update.curvature else None,
        products=products,
        one_batch=one_batch,
    )


def _curved(
    batch: Evaluated, update: UpdatePlan, store: Path
) -> tuple[Responses, Tables, Tangents, Curvatures, tuple[Way, ...]]:
    tables = _table(Tables, update.curvature, store)
    K = tables.S.size
    count = int(np.searchsorted(batch.responses.start, K))
    responses = Responses(
        prompt=batch.responses.prompt[:count], start=batch.responses.start[: count + 1]
    )
    ways = tuple(
        Way(
            way.weighting,
            way.baseline_name,
            None if way.baseline is None else Baseline(*(x[:K] for x in way.baseline)),
        )
        for way in batch.ways
    )
    return (
        responses,
        tables,
        _table(Tangents, update.curvature, store),
        _table(Curvatures, update.curvature, store),
        ways,
    )


def _ways(responses: Responses, here: Tables) -> Iterator[Way]:
    yield Way(Weighting.SEQUENCE, "none", None)
    yield Way(Weighting.PER_DECISION, "none", None)
    position = PositionFit.of(
        responses, here, batch=0, positions=int(responses.length.max())
    ).solve()
    fitted = {"position": position.predict(responses)}
    for name, features in {
        "constant": constant_features(responses),
        "prefix": prefix_features(responses, here),
    }.items():
        fit = RidgeFit.of(responses, here, features).solve()
        fitted[name] = fit.predict(responses, features)
    for name, baseline in fitted.items():
        yield Way(Weighting.DOUBLY_ROBUST, name, baseline)


def _prompt_texts(config: MeasureConfig, rollouts: Rollouts) -> dict[int, str]:
    asking = task(config.task, **config.task_settings())
    problems = asking.problems(config.split, config.problems)
    return {int(i): asking.prompt(problems[i]) for i in np.unique(rollouts.prompt)}


def _table(kind: type[Table], requests: Sequence[Request], store: Path) -> Table:
    return read_table(kind, [request.path(store) for request in requests])
