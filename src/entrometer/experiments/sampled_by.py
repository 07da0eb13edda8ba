"""What a run says of who sampled its responses, and of losses that it had to assume."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer import passes
from entrometer.estimators import Tables
from entrometer.experiments.experiment import Point
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Recorded,
    read_draws,
)
from entrometer.runs.columns import read_table

_LITTLE = 0.5
"""Share of the responses below which reweighting leaves too little of them."""


def recorded_of(points: Sequence[Point]) -> list[Recorded]:
    """Return the recorded updates that the points measure, each once."""
    batches = [b for point in points for r in point.requests() for b in r.batches]
    whole = [getattr(batch, "batch", batch) for batch in batches]
    return list({b.path: b for b in whole if isinstance(b, Recorded)}.values())


def short_name(batch: Recorded) -> str:
    """Return the run and the file of a recorded update."""
    # With the run: checkpoints of several trainings may have the same step.
    return str(Path(*Path(batch.path).parts[-3:]))


def assumed_losses(recorded: Sequence[Recorded]) -> list[str]:
    """Return a warning for each recorded update whose loss had to be assumed."""
    return [
        f"{short_name(batch)}: recorded without the weights of its loss; "
        f"{batch.assumed.partition(':')[0]} is assumed, which the training may not "
        "have had."
        for batch in recorded
        if batch.assumed
    ]


def assumed_samplers(recorded: Sequence[Recorded]) -> list[str]:
    """Return a sentence if updates lack the log-probs of what sampled them."""
    without = [short_name(b) for b in recorded if "S_engine" not in b.log_probs]
    if not without:
        return []
    name = without[0] if len(without) == 1 else f"{len(without)} updates"
    return [
        f"{name}: recorded without the log-probs of the engine that sampled, so the "
        "responses count as samples of the trainer's own policy."
    ]


def engine_evaluations(
    points: Sequence[Point], store: Path
) -> Iterator[tuple[str, bool]]:
    """Yield what an engine's evaluation responses are worth, and whether it is little.

    One sentence per point whose evaluation batch an engine sampled.
    """
    told = set()
    for point in points:
        shards = {
            r.name: r
            for r in point.requests()
            if isinstance(r, Forward)
            and r.step is None
            and isinstance(r.rollouts, Draw)
            and r.rollouts.log_probs
        }
        if not shards or (key := frozenset(shards)) in told:
            continue
        told.add(key)
        here = list(shards.values())
        S = read_table(Tables, [r.path(store) for r in here]).S
        rollouts = read_draws([r.rollouts for r in here], store)
        weight = passes.layout(rollouts, S).weight
        assert weight is not None, point.name
        worth, count = float(np.sum(weight)), rollouts.count
        yield (
            f"{point.name}: an engine sampled the {count} responses of the evaluation; "
            f"reweighted to this policy they are worth {worth:.0f} (effective sample "
            "size of their importance weights).",
            worth < _LITTLE * count,
        )
