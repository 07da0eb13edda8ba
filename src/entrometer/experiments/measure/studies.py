"""What one batch says of others: sample sizes, scatter of errors, convergence."""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_statistics,
    linear_term,
    sample_size_ratio,
    scatter,
)
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.estimates import (
    PERS,
    change_of,
    slope_of,
    way_fields,
)
from entrometer.experiments.measure.plan import CheckpointPlan
from entrometer.experiments.measure.tables import Evaluated, Updated, Way
from entrometer.runs.tables.measure import Convergence, ErrorStudy, Needed

_PAIRS = 3
"""Pairs of weightings whose errors are studied."""


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


def seconds_of_studies(
    config: MeasureConfig, points: Sequence[CheckpointPlan], tokens: float
) -> float:
    """Return the seconds of the synthetic batches, by trying a few of them."""
    change, slope, here = _sums(config.prompts)

    def error(change: PromptSums, slope: PromptSums) -> float:
        return entropy_change(change).value - linear_term(slope).value

    tried = min(config.synthetic_batches, 100)
    began = time.perf_counter()
    size = config.synthetic_size
    scatter([change, slope], error, size=size, batches=tried, seed=0)
    between = time.perf_counter()
    scatter([here], lambda h: entropy(h).value, size=size, batches=tried, seed=0)
    each_entropy = (time.perf_counter() - between) / tried
    each_error = (between - began) / tried
    etas = sum(len(u.changes) for point in points for u in point.updates)
    sizes = max(0, int(np.log2(config.prompts)) - 2) * len(points)
    return config.synthetic_batches * (
        _PAIRS * etas * each_error + 2 * sizes * each_entropy
    )


def _sums(prompts: int) -> tuple[PromptSums, PromptSums, PromptSums]:
    """Return statistics as the studies have them, of random numbers."""
    rng = np.random.default_rng(0)
    responses = Responses.from_lengths(
        np.arange(prompts), np.full(prompts, 2, np.int64)
    )
    S, H, dS, dH = rng.uniform(0.5, 1.0, (4, responses.tokens))
    here, there = Tables(-S, H), Tables(-S - 1e-3 * dS, H + 1e-3 * dH)
    weighting = Weighting.PER_DECISION
    return (
        change_statistics(responses, here, there, weighting=weighting),
        linear_statistics(responses, here, Tangents(dS, dH), weighting=weighting),
        entropy_statistics(responses, H),
    )
