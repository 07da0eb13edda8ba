"""What influence costs, beside moving along each response and beside bare passes."""

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Check
from benchmarks.influence.one_by_one import moving
from benchmarks.influence.subject import have, planned
from entrometer import passes
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.requests import Worker
from entrometer.experiments.token_influence.gradients import objective_weights
from entrometer.experiments.token_influence.requests import read_fold_gradients
from entrometer.experiments.update import adjoint

PROMPTS = 48
FOLDS = 2
MOVED = 16
"""Responses that are moved along for the time of all."""


def cost(store: Path) -> tuple[list[Check], dict[str, object]]:
    point = planned(PROMPTS, folds=FOLDS)
    (update,) = point.updates
    before = [*(h.rollouts for h in point.here), *point.here, update.step]
    have([*before, update.texts], store)
    worker = Worker(store)
    policy = worker.checkpoint(point.subject).policy
    evaluation = point.read_batch(store)
    batch, step = update.step.read_batch(store), update.step.read(store)
    weights = objective_weights(evaluation)

    def two_passes() -> None:
        gradient = passes.vjp(policy, evaluation.rollouts, weights[0]).gradient
        passes.jvp(policy, batch.rollouts, [adjoint(gradient, step)])

    def whole() -> None:
        for request in (*point.gradients, update.adjoint, update.carried):
            request.run(worker)
        updated(point, update, evaluation, store)

    def bare() -> None:
        passes.vjps(policy, evaluation.rollouts, weights)
        passes.jvp(policy, batch.rollouts, directions)

    # Alternating, against what else the machine does.
    twice = [_seconds(two_passes)]
    _, moved_seconds = moving(policy, evaluation, batch, step, range(MOVED))
    twice.append(_seconds(two_passes))
    all_of_it = _seconds(whole)
    gradients = read_fold_gradients(point.gradients, store)
    directions = [adjoint(g, step) for g in gradients]
    N = batch.rollouts.count
    seconds = {
        "two_passes": sum(twice) / 2,
        "one_by_one": moved_seconds * N / MOVED,
        "with_standard_errors": all_of_it,
        "its_bare_passes": _seconds(bare),
    }
    return [
        Check(
            f"one by one over two passes, {N} responses",
            seconds["one_by_one"] / seconds["two_passes"],
            at_least=20,
        ),
        Check(
            "influence over its bare passes",
            seconds["with_standard_errors"] / seconds["its_bare_passes"],
            at_most=1.2,
        ),
    ], {
        "seconds": seconds,
        "folds": len(point.gradients),
    }


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
