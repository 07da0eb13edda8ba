"""Forecasts of entropy and reward at 2t and 4t, and alerts, on held-out trainings.

Series of short trainings of the workbench under many losses are in `studies/forecast`.
What the forecast takes from other trainings is fitted again to the calibration part,
and must be what the package has; the held-out part is scored. With FORECAST_AT=FOLDER
the trainings are made again.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.forecast import methods
from benchmarks.forecast.alarm import chosen, watched
from benchmarks.forecast.calibration import HORIZONS, Point, calibrated, points
from benchmarks.forecast.series import Training, read
from benchmarks.forecast.trainings import made
from benchmarks.harness import Check, Report
from entrometer.estimators.collapse import ALERT, FLOOR
from entrometer.estimators.forecast import SPREADS

_RESAMPLES = 2000


def run() -> Report:
    trainings = made(Path(__file__)) if "FORECAST_AT" in os.environ else read()
    calibration = [t for t in trainings if t.part == "calibration"]
    held_out = [t for t in trainings if t.part == "held-out"]
    checks = [Check("held-out trainings", float(len(held_out)), at_least=40.0)]
    figures: dict[str, Any] = {
        "calibration trainings": len(calibration),
        "losses of held-out trainings": sorted({t.loss for t in held_out}),
        "clusters": len({t.cluster for t in held_out}),
    }
    for horizon in HORIZONS:
        again = calibrated(calibration, horizon)
        figures[f"calibrated, {horizon}t"] = vars(again)
        apart = [
            abs(value / getattr(SPREADS[horizon], name) - 1)
            for name, value in vars(again).items()
        ]
        label = f"constants of the package against the calibration, {horizon}t"
        checks.append(Check(label, max(apart), at_most=0.01))
        scored, more = _scores(points(held_out, horizon), horizon)
        checks += scored
        figures[f"at {horizon}t"] = more
    more_checks, figures["alerts"] = _alerts(calibration, held_out)
    return Report(checks + more_checks, figures)


def _scores(every: Sequence[Point], horizon: int) -> tuple[list[Check], dict[str, Any]]:
    """Return coverage and errors, each over trainings, with intervals by cluster."""
    forecast = [p.curves.forecast(horizon, SPREADS[horizon]) for p in every]
    observed = [p.observed(horizon) for p in every]
    checks: list[Check] = []
    figures: dict[str, Any] = {"forecasts": len(every)}
    errors: dict[str, dict[str, list[float]]] = {"entropy": {}, "reward": {}}
    ours = "forecast"
    for i, what in enumerate(("entropy", "reward")):
        predicted = [getattr(f, what) for f in forecast]
        covered = [x.covers(o[i]) for x, o in zip(predicted, observed, strict=True)]
        value, *ends = _mean(every, covered)
        label = f"coverage of {what} at {horizon}t"
        checks.append(Check(label, value, at_least=0.9, at_most=0.98))
        figures[f"coverage of {what}, interval"] = _rounded(ends)
        figures[f"coverage of {what} by loss"] = _by_loss(every, covered)
        errors[what][ours] = [
            abs(x.value - o[i]) for x, o in zip(predicted, observed, strict=True)
        ]
    excess = {
        t: [
            f.entropy.value - o[0]
            for p, f, o in zip(every, forecast, observed, strict=True)
            if p.t == t
        ]
        for t in sorted({p.t for p in every})
    }
    figures["entropy, mean of forecast minus observed by t"] = {
        str(t): round(float(np.mean(e)), 3) for t, e in excess.items()
    }
    for name, extrapolate in methods.ENTROPY.items():
        at = [_entropy(extrapolate, p, horizon) for p in every]
        errors["entropy"][name] = [
            abs(h - o[0]) for h, o in zip(at, observed, strict=True)
        ]
        errors["reward"][f"curve R(h), h by {name}"] = [
            abs(methods.reward_curve(*p.training.until(p.t)[1:], h) - o[1])
            for p, h, o in zip(every, at, observed, strict=True)
        ]
    for name, trend in (
        ("last value", methods.last_value),
        ("mean of the last five", methods.last_mean),
        ("half of the trend in log steps", methods.reward_trend),
    ):
        errors["reward"][name] = [
            abs(_reward(trend, p, horizon) - o[1])
            for p, o in zip(every, observed, strict=True)
        ]
    for what, by_method in errors.items():
        figures[f"mean error of {what}"] = {
            name: round(_mean(every, e)[0], 4) for name, e in by_method.items()
        }
        naive = methods.STRONGEST
        naive = naive if what == "entropy" else f"curve R(h), h by {naive}"
        ratio, low, high = _ratio(every, by_method[ours], by_method[naive])
        figures[f"error of {what}, ratio to {naive}"] = _rounded((ratio, low, high))
        label = f"upper end, error of {what} at {horizon}t relative to a curve fit"
        checks.append(Check(label, high, at_most=1.0))
    return checks, figures


def _entropy(extrapolate: methods.Extrapolation, p: Point, horizon: int) -> float:
    step, entropy, _ = p.training.until(p.t)
    return extrapolate(step, entropy, horizon * p.t)


def _reward(trend: methods.Extrapolation, p: Point, horizon: int) -> float:
    step, _, reward = p.training.until(p.t)
    return trend(step, reward, horizon * p.t)


def _mean(every: Sequence[Point], values: Sequence[float]) -> tuple[float, ...]:
    """Return the mean over trainings, and its interval over clusters."""
    return _ratio(every, values, [1.0] * len(values))


def _ratio(
    every: Sequence[Point], above: Sequence[float], below: Sequence[float]
) -> tuple[float, float, float]:
    """Return a ratio of means over trainings, and its interval over clusters.

    Trainings with the same problems and random numbers are drawn together.
    """
    sums: dict[Any, np.ndarray] = {}
    for p, a, b in zip(every, above, below, strict=True):
        term = p.weight * np.array([a, b])
        sums[p.training.cluster] = sums.get(p.training.cluster, 0.0) + term
    table = np.array(list(sums.values()))
    draws = np.random.default_rng(0).integers(len(table), size=(_RESAMPLES, len(table)))
    drawn = table[draws].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    value = table[:, 0].sum() / table[:, 1].sum()
    return float(value), float(low), float(high)


def _by_loss(every: Sequence[Point], values: Sequence[float]) -> dict[str, float]:
    found = {}
    for loss in dict.fromkeys(p.training.loss for p in every):
        of_loss = [i for i, p in enumerate(every) if p.training.loss == loss]
        chosen_points = [every[i] for i in of_loss]
        found[loss] = round(_mean(chosen_points, [values[i] for i in of_loss])[0], 3)
    return found


def _alerts(
    calibration: Sequence[Training], held_out: Sequence[Training]
) -> tuple[list[Check], dict[str, Any]]:
    outcomes = [watched(t).outcome(ALERT) for t in held_out]
    collapsed = [o for o in outcomes if o.collapse is not None]
    held = [o for o in outcomes if o.collapse is None]
    leads = [o.collapse - o.alert for o in collapsed if o.collapse and o.alert]
    misses = sum(o.missed for o in collapsed)
    false = sum(o.false for o in held)
    undecided = sum(o.undecided for o in held)
    decided = len(held) - undecided
    figures = {
        "floor relative to the first steps": FLOOR,
        "trainings that collapse": len(collapsed),
        "trainings that do not": len(held),
        "of them with an alert about a step that they did not reach": undecided,
        "of them without an alert": decided - false,
        "lead in steps, median": median(leads) if leads else None,
        "lead in steps, each": sorted(leads),
        "misses": misses,
        "misses, interval": _share(misses, len(collapsed)),
        "false alarms": false,
        "false alarms among those decided, interval": _share(false, decided),
        "false alarms by loss": sorted(
            t.loss for t, o in zip(held_out, outcomes, strict=True) if o.false
        ),
    }
    checks = [
        Check(
            "probability of alerts against the calibration",
            abs(ALERT - chosen(calibration)),
            at_most=1e-9,
        ),
        Check(
            "share of false alarms among those decided", false / decided, at_most=0.1
        ),
        Check("share of misses", misses / len(collapsed), at_most=0.1),
        Check("median lead in steps", float(median(leads)), at_least=1.0),
    ]
    return checks, figures


def _share(count: int, of: int) -> list[float]:
    """Return the exact 95% interval of a share, as if trainings were independent."""
    interval = binomtest(count, of).proportion_ci()
    return _rounded((interval.low, interval.high))


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(x), 3) for x in values]
