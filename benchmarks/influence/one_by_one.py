"""The influence of each response by moving along its own part of the update."""

# Axes: N responses of the update batch.

import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.harness import Check
from benchmarks.influence.subject import have, planned
from entrometer import passes
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    change_statistics,
    entropy_change,
)
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.requests import Worker
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.update import StepVectors, adjoint
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy

PROMPTS = 8
STEP = 3e-4
"""The training's learning rate; at ten times as much the change is bent."""


def agreement(store: Path) -> tuple[list[Check], dict[str, object]]:
    point = planned(PROMPTS, folds=2)
    have(list(point.requests()), store)
    (update,) = point.updates
    batch = point.read_batch(store)
    moved = updated(point, update, batch, store)
    ours_N = moved.responses.total(moved.parts["entropy"].sum(axis=1))
    N = ours_N.size
    theirs_N, seconds = moving(
        Worker(store).checkpoint(point.subject).policy,
        batch,
        update.step.read_batch(store),
        update.step.read(store),
        range(N),
    )
    correlation = float(np.corrcoef(ours_N, theirs_N)[0, 1])
    return [
        Check("responses moved along one by one", N, at_least=64),
        Check("correlation with moving along each", correlation, at_least=0.999),
    ], {
        "slope_on_moving": float(ours_N @ theirs_N / (theirs_N @ theirs_N)),
        "seconds_of_moving_along_all": seconds,
    }


def moving(
    policy: Policy,
    evaluation: Evaluation,
    batch: Batch,
    step: StepVectors,
    rows: Iterable[int],
) -> tuple[np.ndarray, float]:
    r"""$(\Delta h(\epsilon v_i) - \Delta h(-\epsilon v_i))/2\epsilon$ of some, timed.

    $v_i = \kappa P\sum_{k\in i}\alpha_k\nabla S_k$. A difference to both sides: one to
    one side costs half, and is off by the curvature.
    """
    start = passes.layout(batch.rollouts).start
    here, responses = evaluation.here, evaluation.responses
    found = []
    began = time.perf_counter()
    for i in rows:
        alpha = batch.alpha[start[i] : start[i + 1]]
        own = GradientWeights(S=alpha, H=np.zeros_like(alpha))
        one = batch.rollouts.select(np.array([i]))
        v = adjoint(passes.vjp(policy, one, own).gradient, step)
        up, down = (
            entropy_change(
                change_statistics(
                    responses, here, there, weighting=Weighting.PER_DECISION
                )
            ).value
            for there in passes.forward_along(
                policy, evaluation.rollouts, v, [STEP, -STEP]
            )
        )
        found.append((up - down) / (2 * STEP))
    return np.array(found), time.perf_counter() - began
