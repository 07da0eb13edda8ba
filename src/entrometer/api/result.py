"""Finished runs in memory: tables as frames, figures, and the report page."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.experiment import (
    Experiment,
    experiment,
    experiment_names,
    run_kinds,
)
from entrometer.runs import verified, verify
from entrometer.runs.finished import (
    evaluation_metrics,
    is_measurement,
    read_summary,
    training_metrics,
)
from entrometer.runs.rows import read_arrow, read_tables, table_classes
from entrometer.text import plain

if TYPE_CHECKING:
    import pandas
    import polars


class Finished(ABC):
    """A directory of results; every call reads the files anew."""

    path: Path

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the tables, the main one first."""

    @abstractmethod
    def _read(self, name: str) -> pa.Table:
        """Return a table that exists."""

    def arrow(self, name: str | None = None) -> pa.Table:
        """Return a table as a pyarrow table; the main one by default."""
        name = self.names[0] if name is None else name
        if name not in self.names:
            raise InvalidValue(
                f"no table {name!r}.{nearest_name(name, self.names)} There are: "
                f"{', '.join(self.names)}"
            )
        return self._read(name)

    def frame(self, name: str | None = None) -> "pandas.DataFrame":
        """Return a table as a pandas frame; the main one by default."""
        _require("pandas")
        return self.arrow(name).to_pandas()

    def polars(self, name: str | None = None) -> "polars.DataFrame":
        """Return a table as a polars frame; the main one by default."""
        _require("polars")
        import polars

        return polars.DataFrame(self.arrow(name))

    @property
    def figures(self) -> "dict[str, Figure]":
        """Every figure, to be shown in a notebook, by the stem of its file's name."""
        from entrometer.report import draw_figures

        drawn = draw_figures(self.path, kinds=run_kinds())
        return {name: Figure(svg) for name, svg in drawn.items()}

    def write_figures(
        self, directory: str | Path, formats: Sequence[str] = ("svg", "png")
    ) -> list[Path]:
        """Write every figure as any of svg, png and pdf; return the files' paths."""
        from entrometer.report import write_figures

        return write_figures(self.path, Path(directory), formats, kinds=run_kinds())

    def report(self, out: str | Path | None = None) -> Path | None:
        """Write report.html in the run, or `out`; None without matplotlib or jinja2."""
        if find_spec("matplotlib") is None or find_spec("jinja2") is None:
            print(
                "entrometer: no report, which needs matplotlib and jinja2: "
                "pip install 'entrometer[report]', then entrometer report",
                file=sys.stderr,
            )
            return None
        from entrometer.report import write_report

        path = Path(out or self.path / "report.html")
        return write_report([self.path], path, kinds=run_kinds())

    def page(self, height: int = 720) -> "Page":
        """Return the report for a notebook, in a frame of `height` pixels."""
        from entrometer.report import report_page

        return Page(report_page([self.path], kinds=run_kinds()), height)


@dataclass(frozen=True, repr=False)
class Result(Finished):
    """A finished experiment: `print` it for its summary, or ask for frames."""

    path: Path
    experiment: Experiment[Any, Any]

    @property
    def names(self) -> list[str]:
        """Names of the tables, the main one first."""
        return list(table_classes(self.experiment.tables))

    @property
    def summary(self) -> dict[str, Any]:
        """Title, sentences and warnings, as they were sealed."""
        return read_summary(self.path)

    @property
    def tables(self) -> Any:
        """All tables, as lists of rows."""
        return read_tables(self.path, self.experiment.tables)

    def text(self, report: Path | None = None) -> str:
        """Return sentences, tables, warnings, and the path of the page or results."""
        summary = self.summary
        parts = [
            "\n".join(plain(sentence) for sentence in summary["sentences"]),
            *self.experiment.text(self.tables),
            "\n".join(f"warning: {plain(text)}" for text in summary["warnings"]),
            plain(f"report: {report}" if report else f"results: {self.path}"),
        ]
        return "\n\n".join(part for part in parts if part)

    def __str__(self) -> str:
        """Return what the command line prints."""
        return self.text()

    def __repr__(self) -> str:
        """Return the directory and the names of its tables."""
        return f"<{self.experiment.name} in {self.path}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        summary = self.summary
        items = [f"<li>{escape(text)}</li>" for text in summary["sentences"]]
        items += [
            f"<li><strong>Warning:</strong> {escape(text)}</li>"
            for text in summary["warnings"]
        ]
        return f"<h4>{escape(summary['title'])}</h4><ul>{''.join(items)}</ul>"

    def _read(self, name: str) -> pa.Table:
        verified(self.path)
        row = table_classes(self.experiment.tables)[name]
        return read_arrow(self.path / "results" / f"{name}.parquet", row)


@dataclass(frozen=True)
class Trained(Finished):
    """A training run: what each step logged, and the evaluation of its checkpoints."""

    path: Path

    @property
    def names(self) -> list[str]:
        """`metrics`, one row per step, and `evaluation` if there is one."""
        evaluated = evaluation_metrics(self.path) is not None
        return ["metrics", *(["evaluation"] if evaluated else [])]

    def _read(self, name: str) -> pa.Table:
        read = evaluation_metrics if name == "evaluation" else training_metrics
        return pa.table(read(self.path))


def read(path: str | Path) -> Result | Trained:
    """Return a finished run of any experiment, or a training run so far.

    Args:
        path: The directory that `--run` was given.
    """
    path = Path(path)
    if not is_measurement(path):
        return Trained(path)
    kind = verify(path).get("kind")
    if kind not in experiment_names():
        raise InvalidValue(
            f"{path}: expected a run of {', '.join(experiment_names())}, got {kind!r}; "
            "register that experiment first, or read it with the version that wrote it"
        )
    return Result(path, experiment(kind))


class Figure:
    """An SVG figure that a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


class Page:
    """An HTML page that a notebook shows in a sandboxed frame."""

    def __init__(self, html: str, height: int) -> None:
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise InvalidValue(
            f"expected {package} for its frames, which is not installed: "
            f"pip install {package}; arrow() works without it"
        )
