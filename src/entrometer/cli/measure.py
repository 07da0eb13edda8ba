"""Measure what one step does to the entropy of checkpoints, and write a report."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entrometer.cli.experiment import Experiment, Functions, interval
from entrometer.cli.output import table
from entrometer.cli.settings import Asked
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.runs.measurement import Change, read_measurement


@dataclass(frozen=True, kw_only=True)
class Measure(Asked, MeasureConfig):
    """Measure what one AdamW step does to the entropy of checkpoints.

    The task, its level and problems, the policy, the temperature, the length limit and
    the clipping are by default those of the training, where its config.json lies beside
    the checkpoint.
    """


def _functions() -> Functions:
    from entrometer.experiments.entropy_change.forecast import foresee
    from entrometer.experiments.entropy_change.measure import measure

    return Functions(measure, foresee)


def _text(directory: Path) -> Sequence[str]:
    rows = [
        [
            c.checkpoint,
            c.update,
            f"{c.eta:.3g}",
            interval(c.observed, c.observed_low, c.observed_high),
            interval(c.linear, c.linear_low, c.linear_high),
        ]
        for c in _changes(directory)
    ]
    heads = ["checkpoint", "update", "learning rate", "change", "linear prediction"]
    note = "\nNats a token; brackets: 95% intervals, clustered by prompt."
    return [table(heads, rows, words=2) + note]


def _rows(directory: Path) -> dict[str, Any]:
    return {"changes": [asdict(change) for change in _changes(directory)]}


def _changes(directory: Path) -> list[Change]:
    """The changes that the summary is about: weighted per decision, a token each."""
    return [
        row
        for row in read_measurement(directory).changes
        if (row.weighting, row.per) == ("per_decision", "token")
    ]


EXPERIMENT = Experiment(
    verb="measure",
    command=Measure,
    config=MeasureConfig,
    functions=_functions,
    text=_text,
    rows=_rows,
)

run = EXPERIMENT.run
