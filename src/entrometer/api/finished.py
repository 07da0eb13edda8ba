"""A finished run in hand: its tables as frames, its figures, its page."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from entrometer.errors import InvalidValue, nearest_name

if TYPE_CHECKING:
    import pandas
    import polars

    from entrometer.report.kinds import RunKind


class Finished(ABC):
    """A directory of results. Nothing is kept in memory; all is read when asked for."""

    path: Path

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Of its tables, the main one first."""

    @abstractmethod
    def _read(self, name: str) -> pa.Table:
        """A table that there is."""

    def arrow(self, name: str | None = None) -> pa.Table:
        """A table; the main one by default."""
        name = self.names[0] if name is None else name
        if name not in self.names:
            raise InvalidValue(
                f"no table {name!r}.{nearest_name(name, self.names)} There are: "
                f"{', '.join(self.names)}"
            )
        return self._read(name)

    def frame(self, name: str | None = None) -> "pandas.DataFrame":
        """The same for pandas."""
        _require("pandas")
        return self.arrow(name).to_pandas()

    def polars(self, name: str | None = None) -> "polars.DataFrame":
        """The same for polars."""
        _require("polars")
        import polars

        return polars.DataFrame(self.arrow(name))

    @property
    def figures(self) -> "dict[str, Figure]":
        """Every figure by the name of its file, to be shown in a notebook."""
        from entrometer.report import draw_figures

        return {
            name: Figure(svg)
            for name, svg in draw_figures(self.path, report_kinds()).items()
        }

    def write_figures(
        self, directory: str | Path, formats: Sequence[str] = ("svg", "png")
    ) -> list[Path]:
        """Write every figure for a paper, as any of svg, png and pdf."""
        from entrometer.report import write_figures

        return write_figures(self.path, Path(directory), formats, report_kinds())

    def report(self, out: str | Path | None = None) -> Path | None:
        """Write the page, by default into the run; None where it cannot be drawn."""
        if find_spec("matplotlib") is None or find_spec("jinja2") is None:
            print(
                "entrometer: no report, which needs matplotlib and jinja2: "
                "pip install 'entrometer[report]', then entrometer report",
                file=sys.stderr,
            )
            return None
        from entrometer.report import write_report

        out = Path(out or self.path / "report.html")
        return write_report([self.path], out, report_kinds())

    def page(self, height: int = 720) -> "Page":
        """The report inside a notebook, in a frame of so many pixels."""
        from entrometer.report import report_page

        return Page(report_page([self.path], report_kinds()), height)


class Figure:
    """A picture for a notebook."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


class Page:
    """A page for a notebook, in a frame of its own that may not reach out of it."""

    def __init__(self, html: str, height: int) -> None:
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )


def told(title: str, sentences: Sequence[str], warnings: Sequence[str]) -> str:
    """Words of a run as HTML, with everything in them escaped."""
    items = [f"<li>{escape(text)}</li>" for text in sentences]
    items += [f"<li><strong>Warning:</strong> {escape(text)}</li>" for text in warnings]
    return f"<h4>{escape(title)}</h4><ul>{''.join(items)}</ul>"


def report_kinds() -> "dict[str, RunKind[Any]]":
    """Kinds of runs that a report knows (for the time being)."""
    from importlib import import_module

    from entrometer.report.kinds import RunKind
    from entrometer.runs.tables.compare import CompareTables
    from entrometer.runs.tables.influence import InfluenceTables
    from entrometer.runs.tables.kernel import KernelTables
    from entrometer.runs.tables.measure import MeasureTables

    tables: dict[str, type] = {
        "measure": MeasureTables,
        "influence": InfluenceTables,
        "kernel": KernelTables,
        "compare": CompareTables,
    }

    def parts(name: str) -> Any:
        return lambda: import_module(f"entrometer.report.{name}").PARTS

    kinds = {n: RunKind(n, t, parts(n)) for n, t in tables.items()}
    old = {"entropy change": "measure", "comparison": "compare"}
    return kinds | {o: RunKind(o, tables[n], parts(n)) for o, n in old.items()}


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise InvalidValue(
            f"expected {package} for its frames, which is not installed: "
            f"pip install {package}; arrow() needs none"
        )
