"""All tokens, momentum and decay against the slope by another pass."""

from pathlib import Path

from benchmarks.harness import Check
from benchmarks.influence.subject import have, planned
from entrometer import passes
from entrometer.estimators import Weighting, linear_statistics, linear_term
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.requests import Worker
from entrometer.runs.columns import read_columns

LIMITS = {"float64": 1e-10, "float32": 1e-4}


def sums(store: Path, precision: str) -> list[Check]:
    point = planned(
        8,
        precision=precision,
        folds=2,
        updates=("sampled-1",),
        update_prompts=2,
        update_responses=4,
    )
    have(list(point.requests()), store)
    batch = point.read_batch(store)
    (update,) = point.updates
    tokens = updated(point, update, batch, store).parts["entropy"].sum()
    carried = read_columns(update.carried.path(store))
    # Rows of the gradients of h come first.
    beside = sum(carried[part][: batch.folds].sum() for part in ("history", "decay"))
    found = passes.jvp(
        Worker(store).checkpoint(point.subject).policy,
        batch.rollouts,
        [update.step.read_direction(store)],
    )
    slope = linear_term(
        linear_statistics(
            batch.responses,
            batch.here,
            found.tangents[0],
            weighting=Weighting.PER_DECISION,
        )
    ).value
    off = abs(tokens + beside - slope) / abs(slope)
    name = f"sum over tokens, history and decay off the slope, {precision}"
    return [Check(name, off, at_most=LIMITS[precision])]
