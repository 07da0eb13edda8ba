"""Finished runs as one self-contained HTML page, or as figure files."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.report import training_page
from entrometer.report.identity import run_facts, run_name, statements
from entrometer.report.kinds import FinishedRun, PageParts, Section
from entrometer.report.measure.samples import Samples
from entrometer.report.plot import Plot
from entrometer.report.read import TRAINING, Kinds, read_runs
from entrometer.report.style import NARROW, save, style
from entrometer.report.svg import inline_svg
from entrometer.report.table import rows_table
from entrometer.report.templates import environment
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
    return environment().get_template("page.html.j2").render(page_content(runs, kinds))


def page_content(runs: Sequence[Path], kinds: Kinds) -> dict[str, Any]:
    """Return what the template of the page shows of finished runs, figures drawn.

    A template that extends `page.html.j2` shows the same page in another frame.
    """
    read = read_runs(runs, kinds)
    groups = _groups(read, kinds)
    parts = {run.name: parts for parts, members in groups for run in members}
    sections, missing = _sections(groups, len(read))
    openings = [_opening(run, parts[run.name], len(read)) for run in read]
    several = f"{len(read)} runs compared"
    return {
        "title": openings[0]["title"] if len(read) == 1 else several,
        "runs": openings,
        "sections": sections,
        "links": _links(sections, openings),
        "missing": missing,
        # Tokens of all sections share one style sheet and one script.
        "script": next((s["tokens"] for s in sections if s["tokens"]), None),
        "version": __version__,
    }


def _opening(run: FinishedRun[Any], parts: PageParts[Any], runs: int) -> dict[str, Any]:
    """Return what the page says of one run before its sections, and at its end."""
    answer = parts.answer(run) if parts.answer else None
    name = run_name(run)
    samples = parts.samples(run, runs) if parts.samples else Samples([], 0)
    return {
        "run": run,
        "alone": runs == 1,
        "title": f"{name}: {answer.title if answer else _lower(run.title)}",
        "facts": run_facts(run),
        "answer": answer,
        "statements": statements(run, run.sentences),
        "warnings": statements(run, run.warnings),
        "config": list(_flat(run.config)),
        "about": list(_flat(run.about)),
        "samples": samples,
    }


def _sections(
    groups: Sequence[Group], runs: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return sections that have content, and subjects that were not measured."""
    sections: list[dict[str, Any]] = []
    missing: list[str] = []
    for parts, members in groups:
        for section in parts.sections:
            plots = {name: make(members) for name, make in section.figures.items()}
            missing += [name for name, plot in plots.items() if plot is None]
            content = _content(section, members, runs)
            if content["tokens"] and any(s["tokens"] for s in sections):
                # Its script and style sheet serve one map.
                content["tokens"] = None
                content["words"].append(
                    "Every token in colours: make a page of these runs alone."
                )
            content["figures"] = [_drawn(plot) for plot in plots.values() if plot]
            if any(content.values()):
                # Runs of two kinds may each have a section of the same title.
                words = f"{members[0].kind} {section.title}".lower()
                key = re.sub("[^a-z0-9]+", "-", words)
                about = {"id": key, "title": section.title, "folded": section.folded}
                sections.append(about | content)
    return sections, missing


def _content(
    section: Section[Any], members: Sequence[FinishedRun[Any]], runs: int
) -> dict[str, Any]:
    words = section.words(members) if section.words else None
    made = [make(members) for make in section.tables]
    per_run = section.run_tables
    listed = [(run.name, per_run(run)) for run in members] if per_run else []
    return {
        "words": [words] if words else [],
        "snippets": (section.snippets(members) if section.snippets else None) or [],
        "tables": [table for table in made if table],
        "tokens": section.tokens(members, runs) if section.tokens else None,
        "run_tables": [(name, tables) for name, tables in listed if tables],
    }


def _drawn(plot: Plot) -> dict[str, Any]:
    """Return a figure at two widths: the style sheet shows the one that has room."""
    with style():
        wide = inline_svg(plot.draw(), plot.key, plot.title, plot.description)
    with style(NARROW):
        key = f"{plot.key}-narrow"
        narrow = inline_svg(plot.draw(), key, plot.title, plot.description)
    return {"plot": plot, "wide": wide, "narrow": narrow}


def _links(
    sections: Sequence[dict[str, Any]], openings: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the table of contents; figures of folded sections are not listed."""
    several = {"id": "runs", "title": "Runs", "figures": []}
    links = [several] if len(openings) > 1 else []
    for section in sections:
        listed = [] if section["folded"] else [f["plot"] for f in section["figures"]]
        links.append({**section, "figures": listed})
    if any(o["samples"].checkpoints for o in openings):
        links.append({"id": "samples", "title": "Samples", "figures": []})
    title = "Settings, versions, summary"
    return [*links, {"id": "settings", "title": title, "figures": []}]


def draw_figures(run: Path, kinds: Kinds) -> dict[str, str]:
    """Return each figure of a run as SVG, by its file name without suffix."""
    drawn = {}
    with style():
        for plot in _plots(_groups(read_runs([run], kinds), kinds)):
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
    plots = _plots(_groups(read_runs([run], kinds), kinds))
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
            parts = training_page.PARTS if name == TRAINING else kinds[name].parts()
            if not parts.sections:
                rows = [
                    partial(rows_table, name=table)
                    for table in table_classes(kinds[name].tables)
                ]
                parts = replace(parts, sections=[Section("Results", tables=rows)])
            groups.append((parts, members))
    return groups


def _plots(groups: Sequence[Group]) -> list[Plot]:
    """Return the figures that there are numbers for."""
    made = (
        make(members)
        for parts, members in groups
        for section in parts.sections
        for make in section.figures.values()
    )
    return [plot for plot in made if plot]


def _lower(title: str) -> str:
    """Return a title as it goes on after a colon; names such as TRL are kept."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _flat(value: Any, name: str = "", depth: int = 4) -> Iterator[tuple[str, str]]:
    """Yield settings by dotted name, to a depth: text as it is, the rest as JSON."""
    if isinstance(value, Mapping) and (value or not name) and depth:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key, depth - 1)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False)
