"""How long a measurement of the kernel will take, and in how much memory."""

from pathlib import Path

from entrometer.experiments.calibrate import calibrate
from entrometer.experiments.carry_out import missing
from entrometer.experiments.forecast import Forecast, Outlook, memory, price
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.kernel.excerpt import FEW, MORE, excerpt
from entrometer.experiments.kernel.plan import plan


def foresee(config: KernelConfig, store: Path) -> Outlook:
    """Plan a measurement, and time a little of what the store has not."""
    points = plan(config)
    requests = [r for point in points for r in point.requests()]
    prices, needed = None, None
    if left := missing(requests, store):
        point = next(p for p in points if p.subject.path == left[0].subject.path)
        few, more = (excerpt(point, *size) for size in (FEW, MORE))
        prices = calibrate(point.subject, few, more)
        # Two moments, a direction and a preconditioner; and rows, as many as fit.
        size = 8 if config.precision == "float64" else 4
        fit = int(config.memory * 1e9 / size / max(1, prices.architecture.trained))
        rows = min(config.sequences, fit) if config.exact else 0
        needed = memory(config, prices, point.here[0].rollouts, 4 + rows)
    stages, loading = price(requests, store, prices)
    return Outlook(Forecast(stages, loading, 0.0, needed), prices)
