"""Influence times weights against each intervention's own update."""

from pathlib import Path

import numpy as np

from benchmarks.comparison.subject import planned
from benchmarks.harness import Check, worst
from benchmarks.influence.subject import have
from entrometer import passes
from entrometer.calculus import Vector, adamw_update, dot, scale
from entrometer.experiments.compare.slopes import measured
from entrometer.experiments.requests import Worker
from entrometer.experiments.token_influence.requests import read_fold_gradients
from entrometer.experiments.update import adjoint


def additivity(store: Path) -> tuple[list[Check], dict[str, object]]:
    """A quarter of the recorded batch, at the one of each that is tried."""
    _, point = planned(prompts=8, folds=4, minibatches=("1/4",), precision="float64")
    have(list(point.requests()), store)
    found = measured(point, store)
    checkpoint = Worker(store).checkpoint(point.subject)
    trained = checkpoint.policy.trained()
    step = point.plain.read(store)
    gradients = list(read_fold_gradients(point.gradients, store))[
        : len(point.gradients)
    ]
    carried = found.carried["entropy"].sum()

    def along(v: Vector) -> float:
        return float(sum(dot(g, v).item() for g in gradients))

    off: dict[str, float] = {}
    held: dict[str, float] = {}
    whole, plain = along(step.direction), found.batch.alpha
    pulled, differ = int(np.count_nonzero(plain)), 0
    for variant in point.variants:
        chosen = variant.intervention
        if not variant.tried or not (chosen.remedy.on_policy or not off):
            continue
        own = found.batch.treated(chosen, found.tables)
        differ += not (np.array_equal(own.alpha, plain) and not own.gamma.any())
        predicted = found.slopes([own]).parts["entropy"].sum()
        ascent = passes.vjp(checkpoint.policy, own.rollouts, own.weights).gradient
        fixed = along(adjoint(ascent, step)) + carried
        made = adamw_update(
            trained,
            scale(ascent, -1.0),
            checkpoint.state,
            checkpoint.hyperparameters,
            max_norm=point.plain.max_grad_norm,
        )
        name = str(chosen)
        off[name] = abs(predicted - fixed) / abs(fixed)
        held[name] = abs(fixed - along(made.update.direction)) / abs(whole)
    return [
        Check("tokens that plain pulls on", pulled, at_least=100),
        Check("interventions that act where every ratio is 1", len(off), at_least=12),
        Check("of them, those that pull otherwise than plain", differ, at_least=8),
        Check(
            "influence times weights off their own update, fixed preconditioner",
            worst([*off.values()]),
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
