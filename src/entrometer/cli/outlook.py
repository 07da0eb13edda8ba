"""What an experiment would do, how long it would take and in how much memory."""

from typing import TYPE_CHECKING

from entrometer.api.output import clock, plain, print_json, table
from entrometer.experiments.config import ExperimentConfig

if TYPE_CHECKING:
    from entrometer.experiments.calibrate import Calibration
    from entrometer.experiments.forecast import Forecast, Outlook

_REPORT = 0.4
"""Seconds of a report, beside those of starting up: both are Python's own."""


def print_outlook(
    config: ExperimentConfig, outlook: "Outlook", start: float, *, as_json: bool
) -> None:
    """Print the plan, its price on this machine, and its memory.

    Args:
        config: What is asked.
        outlook: What it needs.
        start: Seconds that loading the program took.
        as_json: One JSON object instead of text.
    """
    rest = start * (1 + _REPORT)
    if as_json:
        print_json(_as_json(config, outlook.forecast, rest))
    else:
        print(_as_text(config, outlook.forecast, outlook.prices, rest))


def _as_json(
    config: ExperimentConfig, told: "Forecast", rest: float
) -> dict[str, object]:
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
        "memory_bytes": told.memory.total if told.memory else 0.0,
    }


def _as_text(
    config: ExperimentConfig,
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
            "studies after the passes": told.studies,
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
    if prices is not None and told.memory is not None:
        shape = prices.architecture
        lines.append(
            f"memory: roughly {_size(told.memory.total)} beside Python and "
            f"torch: {_count(shape.parameters)} parameters in {config.precision} "
            f"({_size(told.memory.weights)}), moments, steps and gradients "
            f"of the {_count(shape.trained)} trained "
            f"({_size(told.memory.vectors)}), activations of a batch "
            f"({_size(told.memory.activations)})"
        )
    return "\n".join(lines)


def _measured_on(prices: "Calibration") -> str:
    lengths = [response for _, response in prices.lengths]
    return (
        f", from timing each kind of pass on some of {len(lengths)} responses of "
        f"{sum(lengths) / len(lengths):.0f} tokens"
    )


def _gpu_hours(config: ExperimentConfig, seconds: float) -> float:
    return 0.0 if config.device == "cpu" else seconds / 3600


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _count(number: int) -> str:
    return f"{number / 1e6:.3g} M"
