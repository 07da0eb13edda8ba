"""How well the slope predicts the change, by the size of the evaluation batch."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy import stats

from entrometer.estimators import (
    PromptSums,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
    power_law,
    scatter,
)
from studies.workbench_methods.changes import Effects, Update, parts, value
from studies.workbench_methods.rows import EDGES, Power, Prediction, RelativeError

SIZES = (256, 1024, 2048, 4096)
BATCHES = 1000
"""Synthetic batches per update and size."""

MATCHED, ORIGINAL = "matched, per decision", "original"


def predictions(effects: Effects) -> Iterator[Prediction]:
    """Yield each update on the first half of the responses, and on all of them."""
    rate = effects.learning_rate
    for update in effects.updates:
        sums = (update.slope(), update.change(rate))
        # A random half of the prompts, whose responses are on average half of them.
        for chosen in (tuple(parts(s, 2)[0] for s in sums), sums):
            slope, change = (value(s) for s in chosen)
            predicted = rate * slope
            error = (predicted - change).estimate()
            one, other = (parts(s, 2) for s in chosen)
            elsewhere, seen = rate * value(one[0]), value(other[1])
            yield Prediction(
                checkpoint=effects.checkpoint,
                update=update.name,
                prompts=int(chosen[0].total("responses")),
                observed=change.value,
                observed_se=change.standard_error,
                predicted=predicted.value,
                predicted_se=predicted.standard_error,
                error=error.value,
                error_se=error.standard_error,
                apart=elsewhere.value - seen.value,
                apart_se=float(np.hypot(elsewhere.standard_error, seen.standard_error)),
            )


def relative_errors(effects: Effects) -> Iterator[RelativeError]:
    """Yield the scatter of the relative error by pair, learning rate and size."""
    rates = sorted(effects.updates[0].there)
    studied = (
        (MATCHED, rates[0]),
        (MATCHED, effects.learning_rate),
        (ORIGINAL, effects.learning_rate),
    )
    for update in effects.updates:
        for pair, rate in studied:
            change, slope = _pair(update, pair, rate)
            whole = entropy_change(change).value
            for size in SIZES:
                error, reversed_ = _scattered(change, slope, rate, size, whole)
                counts, _ = np.histogram(error, EDGES)
                yield RelativeError(
                    checkpoint=effects.checkpoint,
                    update=update.name,
                    pair=pair,
                    multiple=rate / effects.learning_rate,
                    size=size,
                    batches=BATCHES,
                    mean=float(error.mean()),
                    deviation=float(error.std(ddof=1)),
                    excess_kurtosis=float(stats.kurtosis(error, bias=False)),
                    quantiles=tuple(
                        np.quantile(error, np.linspace(0, 1, 101)).tolist()
                    ),
                    reversed=reversed_,
                    below=float((error < EDGES[0]).mean()),
                    shares=tuple((counts / error.size).tolist()),
                    above=float((error > EDGES[-1]).mean()),
                )


def _pair(update: Update, pair: str, rate: float) -> tuple[PromptSums, PromptSums]:
    """Return the sums of the change and of the slope that are compared."""
    if pair == MATCHED:
        return update.change(rate), update.slope()
    batch = update.effect.batch
    position = next(e for e in batch.estimators if e.baseline_name == "position")
    change = change_statistics(
        batch.responses,
        batch.here,
        update.there[rate],
        weighting=Weighting.SEQUENCE,
    )
    slope = linear_statistics(
        batch.responses, batch.here, update.effect.tangents, **position.options
    )
    return change, slope


def _scattered(
    change: PromptSums, slope: PromptSums, rate: float, size: int, whole: float
) -> tuple[np.ndarray, float]:
    """Return the relative errors, and the share of changes of the other sign."""
    observed: list[float] = []

    def relative(change: PromptSums, slope: PromptSums) -> float:
        observed.append(entropy_change(change).value)
        return (rate * linear_term(slope).value - observed[-1]) / abs(observed[-1])

    # Both are from the same resampled prompts, so that shared noise cancels.
    error = scatter((change, slope), relative, size=size, batches=BATCHES, seed=0)
    return error, float(np.mean(np.array(observed) * whole < 0))


def powers(effects: Effects) -> Iterator[Power]:
    """Yield the power between neighbouring learning rates, and over all of them."""
    for number, update in enumerate(effects.updates):
        rates = sorted(update.there)
        count = len(effects.updates)
        sums = {rate: update.change(rate) for rate in rates}
        whole = {rate: value(s).value for rate, s in sums.items()}
        own = {rate: value(parts(s, count)[number]).value for rate, s in sums.items()}
        for fitted in (*pairwise(rates), tuple(rates)):
            yield Power(
                checkpoint=effects.checkpoint,
                update=update.name,
                lowest=fitted[0] / effects.learning_rate,
                highest=fitted[-1] / effects.learning_rate,
                whole=_power(whole, fitted),
                own=_power(own, fitted),
            )


def _power(changes: dict[float, float], rates: tuple[float, ...]) -> float:
    y = np.array([changes[rate] for rate in rates])
    return power_law(np.array(rates), y).power
