"""Expected gains at later minibatches, over several updates of a checkpoint."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer.experiments.compare.plan import PointPlan
from entrometer.experiments.next_batches.collect import Effects, expected_changes
from entrometer.runs.columns import read_columns
from entrometer.runs.tables.next_batches import LaterChange

WHOLE = "1/1"
"""Whole updates, whose expected gains `next_batches` has."""


def later_changes(points: Sequence[PointPlan], store: Path) -> Iterator[LaterChange]:
    """Yield expected changes by the step of each later minibatch, and gains over plain.

    The units are updates: each has a policy of its own there, after plain's steps on
    its earlier minibatches, and evaluation responses of that policy.
    """
    groups: dict[tuple[str, str], list[PointPlan]] = {}
    for point in points:
        groups.setdefault((point.checkpoint, point.minibatch), []).append(point)
    for (_, minibatch), some in groups.items():
        if minibatch == WHOLE or len(some) < 2 or not some[0].trials:
            continue
        for row in expected_changes(_effects(some, store)):
            yield LaterChange(**vars(row), minibatch=minibatch)


def _effects(points: Sequence[PointPlan], store: Path) -> Effects:
    # A choice of tokens by influence has seen half of the evaluation prompts.
    chosen = [
        i
        for i, trial in enumerate(points[0].trials)
        if "influence" not in trial.variant.intervention.remedy.needs
    ]
    products = []
    for i in chosen:
        columns: dict[str, np.ndarray] = {}
        for b, point in enumerate(points):
            found = read_columns(point.trials[i].slope.path(store))
            columns |= {f"step_{b}": found["total"], f"history_{b}": found["history"]}
        products.append(columns)
    batches = [point.plain.read_batch(store) for point in points]
    return Effects(
        checkpoint=points[0].checkpoint,
        eta=points[0].eta,
        names=[point.update for point in points],
        losses=[str(points[0].trials[i].variant.intervention) for i in chosen],
        evaluations=[point.gradients[0].read_batch(store) for point in points],
        products=products,
        groups=[batch.groups_with_signal for batch in batches],
        effective_share=[batch.effective_share for batch in batches],
    )
