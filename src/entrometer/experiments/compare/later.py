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
    # By loss, not by place: a batch with the log-probs of its engine has more of them.
    slopes = [{t.variant.intervention: t.slope for t in p.trials} for p in points]
    chosen = [
        loss
        for loss in slopes[0]
        if all(loss in others for others in slopes)
        # A choice of tokens by influence has seen half of the evaluation prompts.
        and "influence" not in loss.remedy.needs
    ]
    products = []
    for loss in chosen:
        columns: dict[str, np.ndarray] = {}
        for b, of_loss in enumerate(slopes):
            found = read_columns(of_loss[loss].path(store))
            columns |= {f"step_{b}": found["total"], f"history_{b}": found["history"]}
        products.append(columns)
    batches = [point.plain.read_batch(store) for point in points]
    return Effects(
        checkpoint=points[0].checkpoint,
        eta=points[0].eta,
        names=[point.update for point in points],
        losses=[str(loss) for loss in chosen],
        evaluations=[point.gradients[0].read_batch(store) for point in points],
        products=products,
        groups=[batch.groups_with_signal for batch in batches],
        effective_share=[batch.effective_share for batch in batches],
    )
