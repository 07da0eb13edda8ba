"""Tables of results from the tables of passes; needs no model."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from entrometer.estimators import two_batch_variance, u_statistic
from entrometer.experiments.measure.changes import changes, signal
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import CheckpointPlan
from entrometer.experiments.measure.studies import convergence, errors, needed
from entrometer.experiments.measure.tables import (
    Evaluated,
    Updated,
    evaluated,
    updated,
)
from entrometer.experiments.measure.terms import terms
from entrometer.runs.tables.measure import MeasureTables, Sample, Variance


def collect(
    config: MeasureConfig, points: Sequence[CheckpointPlan], store: Path
) -> MeasureTables:
    """All rows, from a store that has every pass of the plan."""
    found = MeasureTables()
    for point in points:
        batch = evaluated(config, point, store)
        found.convergence.extend(convergence(config, batch))
        found.samples.extend(samples(batch))
        for d, update in enumerate(point.updates):
            moved = updated(batch, update, d, store)
            found.signal.append(signal(batch, moved))
            found.changes.extend(changes(batch, moved))
            found.terms.extend(terms(batch, moved))
            found.variances.extend(variances(batch, moved))
            found.needed.extend(needed(batch, moved))
            found.errors.extend(errors(config, batch, moved))
    return found


def variances(batch: Evaluated, moved: Updated) -> Iterator[Variance]:
    """One row, where products were measured."""
    if moved.products is None or moved.one_batch is None:
        return
    V = two_batch_variance(moved.products)
    # The statistic needs four prompts.
    U = u_statistic(moved.one_batch) if len(moved.one_batch) > 3 else None
    yield Variance(
        checkpoint=batch.point.name,
        update=moved.plan.name,
        precision=batch.precision,
        evaluation_prompts=moved.products.shape[0],
        update_prompts=moved.products.shape[1],
        value=float(moved.products.mean()),
        given_update=V.given_update,
        evaluation=V.evaluation,
        update_batch=V.update,
        both=V.both,
        one_batch=math.nan if U is None else -U.value,
        one_batch_hoeffding_se=math.nan if U is None else U.hoeffding_standard_error,
        one_batch_jackknife_se=math.nan
        if U is None
        else math.sqrt(U.jackknife_variance),
    )


def samples(batch: Evaluated) -> Iterator[Sample]:
    """A row a response."""
    r, T = batch.responses, batch.responses.length
    H, S = r.total(batch.here.H) / T, r.total(batch.here.S) / T
    for i, text in enumerate(batch.rollouts.text):
        yield Sample(
            checkpoint=batch.point.name,
            prompt=int(r.prompt[i]),
            prompt_text=batch.prompt_texts.get(int(r.prompt[i]), ""),
            response_text=text,
            tokens=int(T[i]),
            entropy=float(H[i]),
            surprisal=-float(S[i]),
            reward=float(batch.rollouts.reward[i]),
        )
