"""From the tables of passes to the rows of a comparison; no model in hand."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.estimators import Estimate, Linearised, Tables
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.frontier import below, choices, frontier
from entrometer.experiments.compare.plan import PointPlan, Trial, changed
from entrometer.experiments.compare.slopes import Measured, measured
from entrometer.experiments.compare.variants import Variant
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.token_influence.halves import OBJECTIVES, by_half, change
from entrometer.experiments.update_batch import Batch
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables.compare import CompareTables, Outcome, Remedy
from entrometer.runs.tables.signal import UpdateSignal


def collect(
    config: CompareConfig, points: Sequence[PointPlan], store: Path
) -> CompareTables:
    """All rows, from a store that has every pass of the plans."""
    tables = CompareTables()
    for point in points:
        found = measured(point, store)
        treated = [
            found.batch.treated(v.intervention, found.tables) for v in point.variants
        ]
        prices = sorted(config.prices)
        chosen = choices(found, prices)
        tables.frontier.extend(frontier(found, chosen, prices))
        tables.outcomes.extend(_outcomes(found, treated, chosen, store))
        tables.signal.append(_signal(found))
    tables.remedies.extend(_remedies(points))
    return tables


def _outcomes(
    found: Measured, treated: list[Batch], chosen: list[Batch], store: Path
) -> Iterator[Outcome]:
    point, V = found.point, len(treated)
    rows = found.slopes([*treated, *chosen])
    # Plain is the first: what is left is due to the intervention alone.
    own = np.eye(V, V + len(chosen))
    gains = rows.combined(own - own[0])
    gap = below(rows, V)
    trials = {t.variant: t for t in point.trials}
    truth = _truth(found, store)
    for objective in OBJECTIVES:
        predicted, gain = rows.changes(objective, 1), gains.changes(objective, 1)
        elsewhere = rows.changes(objective, 0)
        plain = truth(point.trials[0], objective) if point.trials else None
        for v, variant in enumerate(point.variants):
            trial = trials.get(variant)
            seen = None if trial is None else truth(trial, objective)
            yield Outcome(
                **_named(point),
                **_of(variant),
                changed=changed(treated[v], treated[0]),
                objective=objective,
                **estimate_fields("predicted", predicted[v]),
                **estimate_fields("gain", gain[v]),
                **estimate_fields("elsewhere", elsewhere[v]),
                reformed=_reformed(found, trial, objective, store),
                **_observed("observed", seen),
                **_observed(
                    "observed_gain",
                    None if seen is None or plain is None else seen - plain,
                ),
                **_gap(gap.get(v) if objective == "reward" else None),
            )


def _signal(found: Measured) -> UpdateSignal:
    """Groups with signal, and momentum's part, on the half that judges."""
    point = found.point
    step = found.slopes([found.batch]).changes("entropy", 1)
    history = found.history.changes("entropy", 1)
    with_signal, groups = found.batch.groups_with_signal
    return UpdateSignal(
        checkpoint=point.checkpoint,
        update=point.update,
        minibatch=point.minibatch,
        groups=groups,
        groups_with_signal=with_signal,
        eta=point.eta,
        quantity="entropy",
        predicted=float(step.value[0]),
        **estimate_fields("momentum", history[0]),
    )


def _named(point: PointPlan) -> dict[str, Any]:
    return {
        "checkpoint": point.checkpoint,
        "update": point.update,
        "minibatch": point.minibatch,
        "step": point.steps,
        "eta": point.eta,
        "share": point.share,
    }


def _of(variant: Variant) -> dict[str, Any]:
    strength = variant.strength
    return {
        "name": variant.intervention.name,
        "settings": str(variant.intervention),
        "strength": np.nan if strength is None else strength,
        "tried": variant.tried,
    }


def _reformed(
    found: Measured, trial: Trial | None, objective: str, store: Path
) -> float:
    if trial is None:
        return np.nan
    total = read_columns(trial.slope.path(store))["total"]
    Q, number = found.evaluation.folds, list(OBJECTIVES).index(objective)
    eta = found.point.eta
    changes = by_half(
        found.evaluation,
        objective,
        eta * total[None, number * Q : (number + 1) * Q],
        eta * total[None, len(OBJECTIVES) * Q :],
        which=1,
    )
    return float(changes.value[0])


def _truth(found: Measured, store: Path) -> Callable[[Trial, str], Linearised]:
    judge = found.evaluation.half(1).batch

    def truth(trial: Trial, objective: str) -> Linearised:
        there = read_table(Tables, [trial.there.path(store)])
        return change(judge, there, objective, found.evaluation)

    return truth


def _observed(name: str, seen: Linearised | None) -> dict[str, Any]:
    return _absent(name) if seen is None else estimate_fields(name, seen.estimate())


def _gap(seen: Estimate | None) -> dict[str, Any]:
    return _absent("below") if seen is None else estimate_fields("below", seen)


def _absent(name: str) -> dict[str, Any]:
    return {f"{name}{part}": np.nan for part in ("", "_se", "_low", "_high")}


def _remedies(points: Sequence[PointPlan]) -> Iterator[Remedy]:
    every = dict.fromkeys(v.intervention for p in points for v in p.variants)
    for chosen in every:
        remedy, settings = chosen.remedy, dict(chosen.settings)
        yield Remedy(
            name=chosen.name,
            settings=str(chosen),
            source=remedy.source,
            trl=(remedy.trl or "").format(**settings),
            verl=(remedy.verl or "").format(**settings),
            differs=remedy.differs,
        )
