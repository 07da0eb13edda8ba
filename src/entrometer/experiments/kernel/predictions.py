"""What the kernel says of held-out responses, beside what is measured."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entrometer.estimators import Responses, Tables
from entrometer.experiments.kernel.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.requests import read_draws
from entrometer.runs.columns import read_columns, read_table
from entrometer.runs.kernel import Prediction


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
