"""What one batch says of others: sample sizes, scatter of errors, convergence."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from entrometer.estimators import (
    PromptSums,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_statistics,
    linear_term,
    sample_size_ratio,
    scatter,
)
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.estimates import (
    PERS,
    change_of,
    slope_of,
    way_fields,
)
from entrometer.experiments.entropy_change.tables import Evaluated, Updated, Way
from entrometer.runs.tables.measure import Convergence, ErrorStudy, Needed


def needed(batch: Evaluated, moved: Updated) -> Iterator[Needed]:
    """Prompts that each way needs, beside the first, the sequence weights."""
    rate = batch.point.learning_rate
    nearest = min(moved.there, key=lambda eta: abs(np.log(eta / (rate or eta))))
    for per, (quantity, eta) in product(
        PERS, (("slope", math.nan), ("change", nearest))
    ):
        found = [
            slope_of(batch, moved, way, per)
            if quantity == "slope"
            else change_of(batch, moved, way, per, eta)
            for way in batch.ways
        ]
        for way, own in zip(batch.ways, found, strict=True):
            factor = sample_size_ratio(found[0], own)
            yield Needed(
                **way_fields(batch, moved, way, per),
                quantity=quantity,
                eta=eta,
                prompt_variance=own.standard_error**2 * own.prompt.size,
                factor=factor.value,
                factor_low=factor.low,
                factor_high=factor.high,
            )


def errors(
    config: MeasureConfig, batch: Evaluated, moved: Updated
) -> Iterator[ErrorStudy]:
    """How the relative error of the prediction scatters over smaller batches."""
    by_name = {way.baseline_name: way for way in batch.ways[2:]}
    sequence, per_decision = batch.ways[:2]
    pairs = {
        "matched, sequence": (sequence, sequence),
        "matched, per decision": (per_decision, per_decision),
        "original": (sequence, by_name["position"]),
    }
    for eta in moved.there:
        for pair, (observing, predicting) in pairs.items():

            def relative(
                change: PromptSums, slope: PromptSums, eta: float = eta
            ) -> float:
                observed = entropy_change(change).value
                off = eta * linear_term(slope).value - observed
                # A step that changes nothing has no relative error.
                return off / abs(observed) if observed else math.nan

            drawn = scatter(
                [
                    _change_sums(batch, moved, observing, eta),
                    _slope_sums(batch, moved, predicting),
                ],
                relative,
                size=config.synthetic_size,
                batches=config.synthetic_batches,
                seed=config.seed,
            )
            yield ErrorStudy(
                checkpoint=batch.point.name,
                update=moved.plan.name,
                precision=batch.precision,
                pair=pair,
                eta=eta,
                batches=config.synthetic_batches,
                size=config.synthetic_size,
                mean=float(drawn.mean()),
                deviation=float(drawn.std(ddof=1)) if drawn.size > 1 else np.nan,
                quantiles=tuple(np.quantile(drawn, np.linspace(0, 1, 101)).tolist()),
            )


def convergence(config: MeasureConfig, batch: Evaluated) -> Iterator[Convergence]:
    """How far an entropy from n prompts is from that of the whole batch."""
    columns = {"whole vocabulary": batch.here.H, "sampled token": -batch.here.S}
    truth = entropy(entropy_statistics(batch.responses, batch.here.H)).value
    for name, column in columns.items():
        sums = entropy_statistics(batch.responses, column)
        size = 8
        while size <= sums.prompts:
            drawn = scatter(
                [sums],
                lambda part: entropy(part).value,
                size=size,
                batches=config.synthetic_batches,
                seed=config.seed,
            )
            error = np.quantile(np.abs(drawn - truth), [0.5, 0.8, 0.95])
            yield Convergence(
                checkpoint=batch.point.name,
                precision=batch.precision,
                estimator=name,
                prompts=size,
                mean=float(drawn.mean()),
                deviation=float(drawn.std(ddof=1)) if drawn.size > 1 else np.nan,
                error_50=float(error[0]),
                error_80=float(error[1]),
                error_95=float(error[2]),
            )
            size *= 2


def _change_sums(batch: Evaluated, moved: Updated, way: Way, eta: float) -> PromptSums:
    return change_statistics(
        batch.responses,
        batch.here,
        moved.there[eta],
        weighting=way.weighting,
        baseline=way.baseline,
    )


def _slope_sums(batch: Evaluated, moved: Updated, way: Way) -> PromptSums:
    return linear_statistics(
        batch.responses,
        batch.here,
        moved.tangents,
        weighting=way.weighting,
        baseline=way.baseline,
    )
