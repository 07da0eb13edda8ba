"""Rows of the result tables, from the tables that passes wrote; needs no model."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer.estimators import Tables
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.later import later_changes
from entrometer.experiments.compare.plan import PointPlan, Trial, changed
from entrometer.experiments.compare.slopes import (
    CHOOSING,
    HELD_OUT,
    Measured,
    Slopes,
    choices,
    distance_to_frontier,
    frontier,
    measured,
)
from entrometer.experiments.next_batches.collect import (
    batch_changes,
    expected_changes,
    gain_agreement,
    read_effects,
)
from entrometer.experiments.result_fields import estimate_fields, update_signal
from entrometer.experiments.token_influence.gradients import by_objective
from entrometer.experiments.token_influence.halves import OBJECTIVES, change
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import PLAIN
from entrometer.interventions.plain import without_dr_grpo
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables.compare import AS_TRAINED, CompareTables, Outcome, Remedy
from entrometer.runs.tables.signal import UpdateSignal


def collect(
    config: CompareConfig, points: Sequence[PointPlan], store: Path
) -> CompareTables:
    """Return all result tables; the store must hold the result of every pass."""
    return collect_measured(config, (measured(p, store) for p in points), store)


def collect_measured(
    config: CompareConfig, at_points: Iterable[Measured], store: Path
) -> CompareTables:
    """Return all result tables from what `measured` returns for each point."""
    # The frontier is built from the lowest price to the highest.
    tables, prices = CompareTables(), sorted(config.prices)
    points: list[PointPlan] = []
    for m in at_points:
        point = m.point
        points.append(point)
        treated = [m.batch.treated(v.intervention, m.tables) for v in point.variants]
        chosen = choices(m, prices)
        tables.frontier.extend(frontier(m, chosen, prices))
        tables.outcomes.extend(_outcomes(m, treated, chosen, store))
        tables.signal.append(_signal(m))
        effects = read_effects(point, point.eta, store)
        tables.expected.extend(expected_changes(effects))
        tables.batches.extend(batch_changes(effects))
        tables.agreement.extend(gain_agreement(effects, _predicted(m, treated)))
    tables.remedies.extend(_remedies(points, tables.outcomes))
    tables.later.extend(later_changes(points, store))
    return tables


def _outcomes(
    measured: Measured, treated: list[Batch], chosen: list[Batch], store: Path
) -> Iterator[Outcome]:
    point, V = measured.point, len(treated)
    rows = measured.slopes([*treated, *chosen])
    # Minus plain, the first row: momentum and weight decay cancel.
    select = np.eye(V, V + len(chosen))
    gains = rows.combined(select - select[0])
    distances = distance_to_frontier(rows, V)
    trials = {t.variant: t for t in point.trials}
    held_out = measured.evaluation.half(HELD_OUT).batch
    for objective in OBJECTIVES:
        predicted = rows.changes(objective, HELD_OUT)
        gain = gains.changes(objective, HELD_OUT)
        elsewhere = rows.changes(objective, CHOOSING)
        plain = None
        for v, variant in enumerate(point.variants):
            trial = trials.get(variant)
            observed = observed_gain = None
            if trial is not None:
                there = read_table(Tables, [trial.there.path(store)])
                after = change(held_out, there, objective, measured.evaluation)
                # Plain is the first; differences are paired by prompt.
                plain = after if plain is None else plain
                observed, observed_gain = after.estimate(), (after - plain).estimate()
            strength = variant.strength
            yield Outcome(
                checkpoint=point.checkpoint,
                update=point.update,
                minibatch=point.minibatch,
                step=point.steps,
                eta=point.eta,
                share=point.share,
                name=variant.intervention.name,
                settings=str(variant.intervention),
                reference=PLAIN if measured.batch.trained is None else AS_TRAINED,
                strength=np.nan if strength is None else strength,
                tried=variant.tried,
                changed=changed(treated[v], treated[0]),
                objective=objective,
                **estimate_fields("predicted", predicted[v]),
                **estimate_fields("gain", gain[v]),
                **estimate_fields("elsewhere", elsewhere[v]),
                reformed=_reformed(measured, trial, objective, store),
                **estimate_fields("observed", observed),
                **estimate_fields("observed_gain", observed_gain),
                **estimate_fields(
                    "below", distances.get(v) if objective == "reward" else None
                ),
            )


def _predicted(measured: Measured, treated: list[Batch]) -> dict[str, dict[str, float]]:
    """Return the gains that influence predicts on the choosing half, by loss."""
    rows = measured.slopes(treated)
    select = np.eye(len(treated))
    gains = rows.combined(select - select[0])
    return {
        objective: {
            str(variant.intervention): float(x)
            for variant, batch, x in zip(
                measured.point.variants,
                treated,
                gains.changes(objective, CHOOSING).value,
                strict=True,
            )
            if variant.tried and changed(batch, treated[0])
        }
        for objective in OBJECTIVES
    }


def _signal(measured: Measured) -> UpdateSignal:
    point = measured.point
    step = measured.slopes([measured.batch]).changes("entropy", HELD_OUT)
    return update_signal(
        measured.batch.groups_with_signal,
        # On the held-out half, as the outcomes are.
        measured.history.changes("entropy", HELD_OUT)[0],
        checkpoint=point.checkpoint,
        update=point.update,
        minibatch=point.minibatch,
        eta=point.eta,
        predicted=float(step.value[0]),
    )


def _reformed(
    measured: Measured, trial: Trial | None, objective: str, store: Path
) -> float:
    """Return the slope along the step that AdamW makes, times the learning rate."""
    if trial is None:
        return np.nan
    # AdamW's step with its own preconditioner, unlike `predicted`.
    slopes = by_objective(read_columns(trial.slope.path(store))["total"])
    rows = {name: values[None] for name, values in slopes.items()}
    changes = Slopes(measured.evaluation, measured.point.eta, rows)
    return float(changes.changes(objective, HELD_OUT).value[0])


def _remedies(points: Sequence[PointPlan], outcomes: list[Outcome]) -> Iterator[Remedy]:
    # Settings of TRL and verl that make the loss Dr-GRPO are not for a training that
    # keeps its own loss.
    own = all(o.reference == AS_TRAINED for o in outcomes)
    # Points share their interventions; each has one row.
    for chosen in dict.fromkeys(v.intervention for p in points for v in p.variants):
        remedy, settings = chosen.remedy, dict(chosen.settings)
        trl, verl = remedy.trl or "", remedy.verl or ""
        if own and not remedy.whole:
            trl, verl = without_dr_grpo(trl, verl)
        yield Remedy(
            name=chosen.name,
            settings=str(chosen),
            source=remedy.source,
            trl=trl.format(**settings),
            verl=verl.format(**settings),
            differs=remedy.differs,
        )
