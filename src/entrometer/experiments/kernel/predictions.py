"""Changes of held-out log-probs: predicted by the kernel, measured, by momentum."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from entrometer.estimators import PromptSums, Responses, Tables
from entrometer.estimators.estimate import linearise
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.kernel.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.requests import read_draws
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.tables.kernel import Prediction
from entrometer.runs.tables.signal import UpdateSignal


def signal(
    point: CheckpointPlan,
    update: UpdatePlan,
    rows: Sequence[Prediction],
    store: Path,
) -> UpdateSignal:
    """Return the groups with signal, and momentum's part of held-out log-probs.

    Both changes are means over the held-out responses.
    """
    rollouts = read_draws([h.rollouts for h in point.here], store)
    responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
    shards = [read_columns(request.path(store)) for request in update.carried]
    slope = np.concatenate([shard["history"] for shard in shards])
    sums = PromptSums.of(
        rollouts.prompt,
        responses=np.ones(responses.count),
        history=point.eta * responses.total(slope),
    )
    count = sums.total("responses")
    mean = sums.total("history") / count
    momentum = linearise(sums, mean, {"history": 1 / count, "responses": -mean / count})
    with_signal, groups = update.step.read_batch(store).groups_with_signal
    return UpdateSignal(
        checkpoint=point.name,
        update=update.name,
        minibatch="1/1",
        groups=groups,
        groups_with_signal=with_signal,
        eta=point.eta,
        quantity="log-prob",
        predicted=float(np.mean([row.predicted for row in rows])),
        **estimate_fields("momentum", momentum.estimate()),
    )


def predictions(
    point: CheckpointPlan, update: UpdatePlan, store: Path
) -> Iterator[Prediction]:
    r"""A row a held-out response.

    $\delta S = \eta\big(\kappa\sum_u K_{tu} + \nabla S\cdot v_\text{history}
    + \nabla S\cdot v_\text{decay}\big)$ against $S(\theta + \eta v) - S(\theta)$.
    """
    eta = point.eta
    rollouts = read_draws([h.rollouts for h in point.here], store)
    responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
    here = read_table(Tables, [h.path(store) for h in point.here])
    there = read_table(Tables, [h.path(store) for h in update.there])
    own = eta * update.cross.read(store).sum(axis=1)
    shards = [read_columns(request.path(store)) for request in update.carried]
    carried = np.concatenate([shard["history"] + shard["decay"] for shard in shards])
    predicted = own + eta * responses.total(carried)
    observed = responses.total(there.S - here.S)
    for i in range(responses.count):
        yield Prediction(
            checkpoint=point.name,
            update=update.name,
            eta=eta,
            response=i,
            length=int(responses.length[i]),
            predicted=float(predicted[i]),
            own=float(own[i]),
            observed=float(observed[i]),
        )
