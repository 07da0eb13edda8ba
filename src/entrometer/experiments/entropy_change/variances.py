"""Where the variance of the slope comes from: the two batches, or one by itself."""

import math
from collections.abc import Iterator

from entrometer.estimators import two_batch_variance, u_statistic
from entrometer.experiments.entropy_change.tables import Evaluated, Updated
from entrometer.runs.tables.measure import Variance


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
