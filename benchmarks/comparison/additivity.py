"""Influence times weights against each intervention's own update."""

from pathlib import Path

import numpy as np

from benchmarks.comparison.subject import planned
from benchmarks.harness import Check
from benchmarks.influence.subject import have
from entrometer import passes
from entrometer.calculus import Vector, dot
from entrometer.experiments.comparison.slopes import measured
from entrometer.experiments.requests import Worker
from entrometer.experiments.update import adjoint, make_step


def additivity(store: Path) -> tuple[list[Check], dict[str, object]]:
    point = planned(
        prompts=8,
        folds=4,
        updates=("sampled-1",),
        update_prompts=2,
        update_responses=4,
        minibatches=("1/1",),
        precision="float64",
    )
    have(list(point.shared()), store)
    found = measured(point, store)
    checkpoint = Worker(store).checkpoint(point.subject)
    step = point.plain.read(store)
    gradients = list(point.adjoint.read_gradients(store))[: len(point.gradients)]

    def along(v: Vector) -> float:
        return float(sum(dot(g, v).item() for g in gradients))

    off, held = {}, {}
    whole = along(step.direction)
    for variant in point.variants:
        if not variant.intervention.remedy.on_policy and variant != point.variants[0]:
            continue
        own = found.batch.treated(variant.intervention, found.tables)
        predicted = found.slopes([own]).parts["entropy"].sum()
        ascent = passes.vjp(checkpoint.policy, own.rollouts, own.weights).gradient
        carried = found.carried["entropy"].sum()
        fixed = along(adjoint(ascent, step)) + carried
        made = make_step(checkpoint, own, max_grad_norm=point.plain.max_grad_norm)
        name = str(variant.intervention)
        off[name] = abs(predicted - fixed) / abs(fixed)
        held[name] = abs(fixed - along(made.update.direction)) / abs(whole)
    return [
        Check("interventions that act where every ratio is 1", len(off), at_least=12),
        Check(
            "influence times weights off their own update, fixed preconditioner",
            max(off.values()),
            at_most=1e-6,
        ),
    ], {
        "error_of_a_fixed_preconditioner": {
            "of": "the slope of plain's whole step",
            "median": float(np.median([*held.values()])),
            "largest": max(held.values()),
            "by_intervention": held,
        },
    }
