"""Studies of the estimators by resampling: sample sizes, errors, convergence."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

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
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import CheckpointPlan
from entrometer.experiments.measure.tables import PERS, EvaluationBatch, UpdateEffect
from entrometer.runs.tables.measure import Convergence, ErrorStudy, Needed

_PAIRS = 3
"""Pairs of estimators whose errors are studied."""


def needed(effect: UpdateEffect) -> Iterator[Needed]:
    """Yield how many times more prompts sequence weights need than each estimator."""
    rate, estimators = effect.batch.point.learning_rate, effect.batch.estimators
    # By ratio: a sweep spans decades, so the nearest rate by difference may be far off.
    nearest = min(effect.there, key=lambda eta: abs(np.log(eta / (rate or eta))))
    studied = (("slope", math.nan), ("change", nearest))
    for per, (quantity, eta) in product(PERS, studied):
        estimates = [
            effect.slope(estimator, per)
            if quantity == "slope"
            else effect.change(estimator, per, effect.there[eta])
            for estimator in estimators
        ]
        for estimator, estimate in zip(estimators, estimates, strict=True):
            factor = sample_size_ratio(estimates[0], estimate)
            yield Needed(
                **effect.labels(estimator, per),
                quantity=quantity,
                eta=eta,
                prompt_variance=estimate.standard_error**2 * estimate.prompt.size,
                factor=factor.value,
                factor_low=factor.low,
                factor_high=factor.high,
            )


def errors(config: MeasureConfig, effect: UpdateEffect) -> Iterator[ErrorStudy]:
    """Yield how the prediction's relative error scatters over resampled batches."""
    sequence, per_decision, *doubly_robust = effect.batch.estimators
    position = next(e for e in doubly_robust if e.baseline_name == "position")
    pairs = {
        "matched, sequence": (sequence, sequence),
        "matched, per decision": (per_decision, per_decision),
        "original": (sequence, position),
    }
    r, here, size = effect.batch.responses, effect.batch.here, config.synthetic_size
    for (eta, there), (pair, (observing, predicting)) in product(
        effect.there.items(), pairs.items()
    ):
        # Bound as a default: a closure would see the last learning rate of the loop.
        def relative(change: PromptSums, slope: PromptSums, eta: float = eta) -> float:
            observed = entropy_change(change).value
            error = eta * linear_term(slope).value - observed
            # A step that changes nothing has no relative error.
            return error / abs(observed) if observed else math.nan

        change = change_statistics(r, here, there, **observing.options)
        slope = linear_statistics(r, here, effect.tangents, **predicting.options)
        # Both from the same resampled prompts, so that shared noise cancels.
        drawn = _scatter(config, (change, slope), relative, size)
        yield ErrorStudy(
            **effect.names,
            pair=pair,
            eta=eta,
            batches=config.synthetic_batches,
            size=size,
            **_mean_and_deviation(drawn),
            quantiles=tuple(np.quantile(drawn, np.linspace(0, 1, 101)).tolist()),
        )


def convergence(config: MeasureConfig, batch: EvaluationBatch) -> Iterator[Convergence]:
    """Yield how far an entropy from n prompts is from that of the whole batch."""
    columns = {"whole vocabulary": batch.here.H, "sampled token": -batch.here.S}
    truth = entropy(entropy_statistics(batch.responses, batch.here.H)).value
    for name, column in columns.items():
        sums = entropy_statistics(batch.responses, column)
        for size in _sizes(sums.prompts):
            drawn = _scatter(config, (sums,), lambda part: entropy(part).value, size)
            error = np.quantile(np.abs(drawn - truth), [0.5, 0.8, 0.95])
            yield Convergence(
                checkpoint=batch.point.name,
                precision=batch.point.subject.precision,
                estimator=name,
                prompts=size,
                **_mean_and_deviation(drawn),
                error_50=float(error[0]),
                error_80=float(error[1]),
                error_95=float(error[2]),
            )


def _sizes(prompts: int) -> list[int]:
    # From 8, the fewest prompts that the settings allow.
    return [2**i for i in range(3, prompts.bit_length())]


def _scatter(
    config: MeasureConfig,
    sums: Sequence[PromptSums],
    estimate: Callable[..., float],
    size: int,
) -> np.ndarray:
    batches, seed = config.synthetic_batches, config.seed
    return scatter(sums, estimate, size=size, batches=batches, seed=seed)


def _mean_and_deviation(drawn: np.ndarray) -> dict[str, Any]:
    # numpy would warn of a deviation with no degrees of freedom.
    deviation = float(drawn.std(ddof=1)) if drawn.size > 1 else np.nan
    return {"mean": float(drawn.mean()), "deviation": deviation}


def seconds_of_studies(
    config: MeasureConfig, points: Sequence[CheckpointPlan], tokens: float
) -> float:
    """Estimate the seconds of all synthetic batches, by timing up to 100."""
    tried, rng = min(config.synthetic_batches, 100), np.random.default_rng(0)

    def sums(*columns: str) -> PromptSums:
        # Only sums per prompt are resampled: lengths and values do not affect the time.
        names, P = ("responses", "H", "T", *columns), config.prompts
        random: dict[str, Any] = {name: rng.uniform(0.5, 1.0, P) for name in names}
        return PromptSums.of(np.arange(P), **random)

    def seconds(sums: Sequence[PromptSums], estimate: Callable[..., float]) -> float:
        began = time.perf_counter()
        scatter(sums, estimate, size=config.synthetic_size, batches=tried, seed=0)
        return (time.perf_counter() - began) / tried

    each_error = seconds(
        [sums("dN", "dD", "w", "w2"), sums("N1", "D1")],
        lambda c, s: entropy_change(c).value - linear_term(s).value,
    )
    each_entropy = seconds([sums()], lambda h: entropy(h).value)
    etas = sum(len(u.changes) for point in points for u in point.updates)
    # Prompts are drawn with replacement, so `convergence` may have a size less.
    sizes = len(_sizes(config.prompts)) * len(points)
    each = _PAIRS * etas * each_error + 2 * sizes * each_entropy
    return config.synthetic_batches * each
