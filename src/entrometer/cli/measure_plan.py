"""What a measurement would do, how long it would take and in how much memory."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from entrometer.cli.output import clock, plain, print_json, table
from entrometer.experiments.entropy_change.config import MeasureConfig

if TYPE_CHECKING:
    from entrometer.experiments.calibrate import Calibration
    from entrometer.experiments.entropy_change.forecast import Forecast

_REPORT = 0.4
"""Seconds of a report, beside those of starting up: both are Python's own."""


def dry_run(config: MeasureConfig, store: Path, *, as_json: bool) -> None:
    """Print the plan, its price on this machine, and its memory."""
    began = time.perf_counter()
    from entrometer.experiments.calibrate import calibrate
    from entrometer.experiments.entropy_change.excerpt import FEW, MORE, excerpt
    from entrometer.experiments.entropy_change.forecast import forecast
    from entrometer.experiments.entropy_change.plan import plan

    points = plan(config)
    start = time.perf_counter() - began
    missing = [
        point
        for point in points
        if any(not r.path(store).exists() for r in point.requests())
    ]
    prices = None
    if missing:
        few, more = (excerpt(missing[0], *size).requests() for size in (FEW, MORE))
        prices = calibrate(missing[0].subject, few, more)
    told = forecast(config, points, store, prices)
    rest = start * (1 + _REPORT)
    if as_json:
        print_json(_as_json(config, told, rest))
    else:
        print(_as_text(config, told, prices, rest))


def _as_json(config: MeasureConfig, told: "Forecast", rest: float) -> dict[str, object]:
    return {
        "stages": {
            name: {
                "passes": s.passes,
                "done": s.done,
                "responses": s.responses,
                "seconds": s.seconds,
            }
            for name, s in told.stages.items()
        },
        "loading_seconds": told.loading,
        "studies_seconds": told.studies,
        "start_and_report_seconds": rest,
        "seconds": told.seconds + rest,
        "gpu_hours": _gpu_hours(config, told.seconds),
        "memory_bytes": sum(told.memory.values()),
    }


def _as_text(
    config: MeasureConfig,
    told: "Forecast",
    prices: "Calibration | None",
    rest: float,
) -> str:
    rows = [
        [name, str(s.passes), str(s.done), str(s.responses), clock(s.seconds)]
        for name, s in told.stages.items()
    ]
    rows += [
        [name, "", "", "", clock(seconds)]
        for name, seconds in {
            "loading": told.loading,
            "studies of synthetic batches": told.studies,
            "start and report": rest,
        }.items()
    ]
    lines = [
        table(["pass", "passes", "done", "responses", "time left"], rows),
        "",
        f"time: about {clock(told.seconds + rest)}"
        + (_measured_on(prices) if prices else "; every pass is there"),
        f"GPU-hours: {_gpu_hours(config, told.seconds):.3g} on {plain(config.device)}",
    ]
    if prices is not None:
        shape = prices.architecture
        lines.append(
            f"memory: roughly {_size(sum(told.memory.values()))} beside Python and "
            f"torch: {_count(shape.parameters)} parameters in {config.precision} "
            f"({_size(told.memory['weights'])}), moments, steps and rows of gradients "
            f"of the {_count(shape.trained)} trained "
            f"({_size(told.memory['vectors'])}), activations of a batch "
            f"({_size(told.memory['activations'])})"
        )
    return "\n".join(lines)


def _measured_on(prices: "Calibration") -> str:
    lengths = [response for _, response in prices.lengths]
    return (
        f", from timing each kind of pass on some of {len(lengths)} responses of "
        f"{sum(lengths) / len(lengths):.0f} tokens"
    )


def _gpu_hours(config: MeasureConfig, seconds: float) -> float:
    return 0.0 if config.device == "cpu" else seconds / 3600


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _count(number: int) -> str:
    return f"{number / 1e6:.3g} M"
