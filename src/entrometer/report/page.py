"""Finished runs as one self-contained HTML page, or as figure files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import jinja2

from entrometer.errors import InvalidValue
from entrometer.report import training
from entrometer.report.kinds import FinishedRun, PageParts
from entrometer.report.measure.samples import Samples
from entrometer.report.plot import Plot
from entrometer.report.read import TRAINING, Kinds, read_runs
from entrometer.report.style import save, style
from entrometer.report.svg import inline_svg
from entrometer.report.table import rows_table
from entrometer.report.text import carried, shown
from entrometer.runs import atomic_write
from entrometer.runs.rows import table_classes
from entrometer.version import __version__

FORMATS = ("svg", "png", "pdf")
Group = tuple[PageParts[Any], Sequence[FinishedRun[Any]]]
"""The runs of one kind, and what they add to the page."""


def write_report(runs: Sequence[Path], out: Path, kinds: Kinds) -> Path:
    """Write finished runs as one HTML file, whole or not at all.

    The file makes no request and runs no script but its own, which it has if it shows
    tokens: a Content-Security-Policy forbids all else, and all text of the runs is
    escaped. The same runs give the same bytes.

    Args:
        runs: Directories of finished runs, of any kinds; several are compared.
        out: The file to write; its directory is created.
        kinds: Kinds of runs by the name that manifests give. Training runs need none.

    Returns:
        `out`.
    """
    page = report_page(runs, kinds)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as file:
        file.write(page.encode())
    return out


def report_page(runs: Sequence[Path], kinds: Kinds) -> str:
    """Return the HTML page of finished runs; see `write_report`."""
    read = read_runs(runs, kinds)
    groups = _groups(read, kinds)
    plots, missing = _plots(groups)
    with style():
        figures = [
            (p, inline_svg(p.draw(), p.key, p.title, p.description)) for p in plots
        ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"shown": shown, "carried": carried}
    maps = [
        parts.tokens(members, len(read)) for parts, members in groups if parts.tokens
    ]
    folded = [
        (name, make(members))
        for parts, members in groups
        for name, make in parts.folded.items()
    ]
    headline = [make(members) for parts, members in groups for make in parts.headline]
    tables = [make(members) for parts, members in groups for make in parts.tables]
    return environment.get_template("page.html.j2").render(
        title=read[0].title if len(read) == 1 else f"{len(read)} runs compared",
        sections=[
            {
                "run": run,
                "tables": parts.run_tables(run) if parts.run_tables else [],
                "config": list(_flat(run.config)),
                "about": list(_flat(run.about)),
                "samples": (parts.samples or _no_samples)(run, len(read)),
            }
            for run in read
            for parts, members in groups
            if run.kind == members[0].kind
        ],
        headline=[t for t in headline if t],
        figures=figures,
        missing=missing,
        tables=[t for t in tables if t],
        folded=[(name, t) for name, t in folded if t],
        tokens=next((m for m in maps if m), None),
        version=__version__,
    )


def draw_figures(run: Path, kinds: Kinds) -> dict[str, str]:
    """Return each figure of a run as SVG, by its file name without suffix."""
    drawn = {}
    with style():
        for plot in _plots(_groups(read_runs([run], kinds), kinds))[0]:
            file = StringIO()
            plot.draw().savefig(file, format="svg", metadata={"Date": None})
            drawn[plot.key] = file.getvalue()
    return drawn


def write_figures(
    run: Path, directory: Path, formats: Sequence[str], kinds: Kinds
) -> list[Path]:
    """Write each figure of a run to a directory for a paper, and return the paths.

    `formats` are any of `svg`, `png` and `pdf`; `kinds` is as in `write_report`.
    """
    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise InvalidValue(
            f"expected formats among {', '.join(FORMATS)}, got {unknown[0]!r}; use "
            "only those"
        )
    plots, _ = _plots(_groups(read_runs([run], kinds), kinds))
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with style():
        for plot in plots:
            for suffix in formats:
                path = directory / f"{plot.key}.{suffix}"
                # Drawn anew: saving a figure changes its layout, and so later files.
                save(plot.draw(), path)
                written.append(path)
    return written


def _groups(runs: Sequence[FinishedRun[Any]], kinds: Kinds) -> list[Group]:
    groups: list[Group] = []
    for name in (*kinds, TRAINING):
        if members := [run for run in runs if run.kind == name]:
            parts = training.PARTS if name == TRAINING else kinds[name].parts()
            if parts == PageParts():
                tables = table_classes(kinds[name].tables)
                parts = PageParts(tables=[partial(rows_table, name=t) for t in tables])
            groups.append((parts, members))
    return groups


def _plots(groups: Sequence[Group]) -> tuple[list[Plot], list[str]]:
    """Return the figures that there are numbers for, and the subjects of the others."""
    pairs = ((m, pair) for p, m in groups for pair in p.figures.items())
    made = {name: make(members) for members, (name, make) in pairs}
    return [p for p in made.values() if p], [n for n, p in made.items() if not p]


def _no_samples(run: FinishedRun[Any], runs: int) -> Samples:
    return Samples([], 0)


def _flat(value: Any, name: str = "", depth: int = 4) -> Iterator[tuple[str, str]]:
    """Yield settings by dotted name, to a depth: text as it is, the rest as JSON."""
    if isinstance(value, Mapping) and (value or not name) and depth:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key, depth - 1)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False)
