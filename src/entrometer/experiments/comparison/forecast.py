"""How long a comparison will take, and in how much memory."""

from dataclasses import replace
from pathlib import Path

from entrometer.experiments.calibrate import calibrate
from entrometer.experiments.carry_out import missing
from entrometer.experiments.comparison.compare import trial_requests
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.experiments.comparison.excerpt import FEW, MORE, excerpt
from entrometer.experiments.comparison.plan import PointPlan, plan
from entrometer.experiments.forecast import Forecast, Outlook, memory, price
from entrometer.experiments.influence.gradients import gradient_names
from entrometer.experiments.requests import Request


def foresee(config: CompareConfig, store: Path) -> Outlook:
    """Plan a comparison, and time a little of what the store has not."""
    points = [likely(p) for p in plan(config)]
    requests: list[Request] = [r for p in points for r in p.shared()]
    requests += trial_requests(points)
    prices, needed = None, None
    if missing(requests, store):
        point = points[-1]
        few, more = (excerpt(point, *size) for size in (FEW, MORE))
        prices = calibrate(replace(point.subject, advanced=None), few, more)
        # Two moments, a direction and a preconditioner; every gradient, and what is
        # made of it to look along.
        vectors = 4 + 2 * len(gradient_names(config.folds))
        needed = memory(config, prices, point.here[0].rollouts, vectors)
    stages, loading = price(requests, store, prices)
    return Outlook(Forecast(stages, loading, 0.0, needed), prices)


def likely(point: PointPlan) -> PointPlan:
    """The point without trials that do nothing where every ratio is 1."""
    if point.subject.advanced is not None:
        return point
    kept = [t for t in point.trials[1:] if t.variant.intervention.remedy.on_policy]
    return replace(point, trials=(*point.trials[:1], *kept))
