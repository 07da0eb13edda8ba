"""Predict entropy and reward of a training at 2t and 4t from its first t steps."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.text import plain, print_json, table

if TYPE_CHECKING:
    from entrometer.estimators.forecast import Predicted


@dataclass(frozen=True, kw_only=True)
class ForecastCommand:
    """Predict entropy and reward of a training at 2t and 4t from its first t steps.

    Reads what the training logged of its batches, and nothing else.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Output directory of a training with recorded updates or checkpoints, or one of
    its checkpoints."""

    at: int | None = None
    """Predict from this step on, as if the training had ended there; by default from
    the last."""

    floor: float | None = None
    """Entropy that counts as collapsed, in nats per token; by default a fifth of that
    of the first four steps."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(ForecastCommand, arguments, verb="forecast")
    if command.at is not None and command.at < 1:
        raise InvalidValue(f"expected a step from 1, got --at {command.at}; correct it")
    if command.floor is not None and not 0 < command.floor < math.inf:
        raise InvalidValue(
            f"expected an entropy above 0, got --floor {command.floor}; correct it"
        )
    # Imported late: `--help` must not load scipy.
    from entrometer.estimators.collapse import (
        collapse_ahead,
        entropy_floor,
        has_collapsed,
        soonest,
    )
    from entrometer.estimators.forecast import LEAST_SPAN, LEAST_STEPS, forecasts
    from entrometer.runs.training_series import training_series

    series = training_series(command.run)
    until = series.step <= (math.inf if command.at is None else command.at)
    entropy, reward = series.entropy[until], series.reward[until]
    found = forecasts(series.step[until], entropy, reward)
    floor = entropy_floor(entropy) if command.floor is None else command.floor
    below = soonest(found).probability_below(floor) if found else math.nan
    alert = collapse_ahead(found, floor, entropy)
    collapsed = has_collapsed(floor, entropy)
    last = int(series.step[until].max(initial=0))
    if command.json:
        print_json(
            {
                "source": str(series.source),
                "step": last,
                "forecasts": [asdict(x) for x in found],
                "floor": floor,
                "probability_below_floor": below,
                "alert": alert,
                "collapsed": collapsed,
            }
        )
        return 0
    print(plain(f"{series.source}: {until.sum()} steps, the last {last}"))
    if collapsed:
        print(f"alert: entropy was below {floor:.3g} in the last four steps")
    if not found:
        print(
            f"not known: a forecast needs {LEAST_STEPS} steps with an entropy, the "
            f"first of them in the first {1 / LEAST_SPAN:.0%} of the training, and a "
            f"curve that fits them; got {int((entropy > 0).sum())} steps"
        )
        return 0
    rows = [[str(x.step), _shown(x.entropy), _shown(x.reward)] for x in found]
    print(table(("step", "entropy, nats per token", "reward"), rows))
    later = soonest(found).step
    print(f"entropy below {floor:.3g} at step {later}: probability {below:.2f}")
    if alert:
        print("alert: entropy is about to collapse")
    return 0


def _shown(predicted: "Predicted") -> str:
    if math.isnan(predicted.value):
        return "not known"
    return f"{predicted.value:.3g} [{predicted.low:.3g}, {predicted.high:.3g}]"
