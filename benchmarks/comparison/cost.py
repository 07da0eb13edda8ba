"""All interventions at all strengths beside one measurement of influence."""

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.subject import planned
from benchmarks.harness import Check
from benchmarks.influence.subject import have
from entrometer.experiments.compare.plan import follow_up
from entrometer.experiments.compare.slopes import measured
from entrometer.experiments.requests import Request
from entrometer.experiments.run import work_left


def cost(store: Path) -> tuple[list[Check], dict[str, object]]:
    """Half the prompts of the default, with the recorded batch of 64 responses."""
    config, point = planned(prompts=128, minibatches=("1/1",))
    shared = list(point.requests())
    one = work_left(shared, store)
    influence = _seconds(shared, store)
    began = time.perf_counter()
    found = measured(point, store)
    batches = [
        found.batch.treated(v.intervention, found.tables) for v in point.variants
    ]
    slopes = found.slopes(batches)
    for objective in ("entropy", "reward"):
        slopes.changes(objective, 1)
    predicting = time.perf_counter() - began
    (followed,) = follow_up(config, [point], store)
    trials = [r for trial in followed.trials for r in trial.requests()]
    more = work_left(trials, store)
    taking = _seconds(trials, store)
    return [
        Check("variants compared", len(point.variants), at_least=40),
        Check(
            "forwards of the comparison over those of influence",
            (one + more) / one,
            at_most=3,
        ),
        Check(
            "seconds of the comparison over those of influence",
            (influence + predicting + taking) / influence,
            at_most=3,
        ),
    ], {
        "seconds": {
            "influence": influence,
            "predicting_all_variants": predicting,
            "steps_that_are_taken": taking,
        },
        "steps_taken": len({r for r in trials if r.kind == "held-out-forward"}),
    }


def _seconds(requests: Sequence[Request], store: Path) -> float:
    began = time.perf_counter()
    have(list(requests), store)
    return time.perf_counter() - began
