"""What an experiment or a training left behind."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from entrometer.api.experiment import Experiment
from entrometer.api.experiments.compare import COMPARE
from entrometer.api.experiments.influence import INFLUENCE
from entrometer.api.experiments.kernel import KERNEL
from entrometer.api.experiments.measure import MEASURE
from entrometer.api.finished import Finished, told
from entrometer.api.output import plain
from entrometer.errors import InvalidValue
from entrometer.runs import verify
from entrometer.runs.finished import (
    evaluation_metrics,
    is_measurement,
    training_metrics,
)
from entrometer.runs.rows import read_arrow
from entrometer.runs.untrusted import read_json

EXPERIMENTS = (MEASURE, INFLUENCE, KERNEL, COMPARE)


@dataclass(frozen=True, repr=False)
class Result(Finished):
    """A finished measurement: `print` it for its tables, or ask for frames."""

    path: Path
    experiment: Experiment[Any]

    @property
    def names(self) -> list[str]:
        """Of its tables, the main one first."""
        return list(self.experiment.tables)

    @property
    def summary(self) -> dict[str, Any]:
        """Title, sentences and warnings."""
        return read_json(self.path / "summary.json")

    def told(self, report: Path | None) -> str:
        """Sentences, tables, warnings, and where the rest is."""
        summary = self.summary
        parts = [
            "\n".join(plain(sentence) for sentence in summary["sentences"]),
            *self.experiment.text(self.path),
            "\n".join(f"warning: {plain(text)}" for text in summary["warnings"]),
            plain(f"report: {report}" if report else f"results: {self.path}"),
        ]
        return "\n\n".join(part for part in parts if part)

    def __str__(self) -> str:
        """What the command line prints."""
        return self.told(None)

    def __repr__(self) -> str:
        """Where it is, and what it holds."""
        return f"<{self.experiment.kind} in {self.path}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        summary = self.summary
        return told(summary["title"], summary["sentences"], summary["warnings"])

    def _read(self, name: str) -> pa.Table:
        path = self.path / "results" / f"{name}.parquet"
        return read_arrow(path, self.experiment.tables[name])


@dataclass(frozen=True)
class Trained(Finished):
    """A training run: what each step logged, and what evaluations found."""

    path: Path

    @property
    def names(self) -> list[str]:
        """`metrics`, a row a step, and where there is one `evaluation`."""
        evaluated = evaluation_metrics(self.path) is not None
        return ["metrics", *(["evaluation"] if evaluated else [])]

    def _read(self, name: str) -> pa.Table:
        read = evaluation_metrics if name == "evaluation" else training_metrics
        return pa.table(read(self.path))


def read(path: str | Path) -> Result | Trained:
    """A finished run of any kind, or a training run as far as it has come.

    Args:
        path: What `--run` was given.
    """
    path = Path(path)
    if not is_measurement(path):
        return Trained(path)
    kind = verify(path).get("kind")
    for experiment in EXPERIMENTS:
        if experiment.kind == kind:
            return Result(path, experiment)
    raise InvalidValue(
        f"{path}: expected a measurement of {', '.join(e.kind for e in EXPERIMENTS)}, "
        f"got {kind!r}; read it with the version that wrote it"
    )
