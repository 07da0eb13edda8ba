"""Runs as one page of HTML that needs nothing but itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import jinja2
from markupsafe import Markup

from entrometer.errors import InvalidValue
from entrometer.report import tables
from entrometer.report.agreement import agreements
from entrometer.report.draining import draining, draining_tokens
from entrometer.report.figures import plots
from entrometer.report.heat.choose import BUDGET as TOKENS
from entrometer.report.heat.page import heat, heated
from entrometer.report.influence import influences
from entrometer.report.plot import Plot
from entrometer.report.read import (
    ComparisonRun,
    InfluenceRun,
    KernelRun,
    MeasurementRun,
    Run,
    TrainingRun,
    read_runs,
)
from entrometer.report.remedies import remedies, strengths
from entrometer.report.samples import BUDGET, Checkpoint, by_checkpoint
from entrometer.report.settings import flat
from entrometer.report.style import save, style
from entrometer.report.svg import inline_svg
from entrometer.report.table import Table
from entrometer.report.text import carried, shown
from entrometer.report.whole import whole_kernels
from entrometer.runs import atomic_write
from entrometer.version import __version__

FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class Drawn:
    """A figure of the page."""

    plot: Plot
    svg: Markup


@dataclass(frozen=True)
class Section:
    """What one run alone has."""

    name: str
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    changes: list[tuple[str, Table]]
    config: list[tuple[str, str]]
    about: list[tuple[str, str]]
    samples: list[Checkpoint]
    left_out: int


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write finished runs as one HTML file, whole or not at all.

    The file makes no request and runs no script but its own, which it has where it
    shows tokens: a Content-Security-Policy forbids all else, and all text of the runs
    is escaped. The same runs give the same bytes.

    Args:
        runs: Directories of measurements, of influence, of kernels, of comparisons of
            interventions and of training runs; several are compared.
        out: The file to write; its directory is made.

    Returns:
        `out`.
    """
    page = report_page(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as file:
        file.write(page.encode())
    return out


def report_page(runs: Sequence[Path]) -> str:
    """The page of finished runs, as text."""
    return render(read_runs(runs))


def draw_figures(run: Path) -> dict[str, str]:
    """Each figure of a run as SVG, by the name of its file."""
    drawn = {}
    with style():
        for plot in plots(read_runs([run]))[0]:
            file = StringIO()
            plot.draw().savefig(file, format="svg", metadata={"Date": None})
            drawn[plot.key] = file.getvalue()
    return drawn


def write_figures(
    run: Path, directory: Path, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Write each figure of a run as files for a paper, and return them.

    Args:
        run: Directory of a measurement of any kind or of a training run.
        directory: Where to; it is made.
        formats: Any of `svg`, `png` and `pdf`.
    """
    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise InvalidValue(
            f"expected formats among {', '.join(FORMATS)}, got {unknown[0]!r}; name "
            "those"
        )
    read = read_runs([run])
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with style():
        for plot in plots(read)[0]:
            for suffix in formats:
                path = directory / f"{plot.key}.{suffix}"
                # Drawn anew: a layout depends on those that were made before it.
                save(plot.draw(), path)
                written.append(path)
    return written


def render(runs: Sequence[Run]) -> str:
    """The page of these runs."""
    measured = [run for run in runs if isinstance(run, MeasurementRun)]
    influential = [run for run in runs if isinstance(run, InfluenceRun)]
    compared = [run for run in runs if isinstance(run, ComparisonRun)]
    found, missing = plots(runs)
    with style():
        figures = [
            Drawn(p, inline_svg(p.draw(), p.key, p.title, p.description)) for p in found
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
    tokens = influences(influential)
    glance = [tables.headline(measured), draining_tokens(tokens), draining(tokens)]
    whole = [
        tables.terms(measured),
        tables.variances(measured),
        tables.evaluations([run for run in runs if isinstance(run, TrainingRun)]),
        whole_kernels([run for run in runs if isinstance(run, KernelRun)]),
        agreements(compared),
        remedies(compared),
    ]
    folded = [("Interventions at other strengths", strengths(compared))]
    return environment.get_template("page.html.j2").render(
        title=_title(runs),
        sections=[_section(run, len(runs)) for run in runs],
        headline=[t for t in glance if t],
        figures=figures,
        missing=missing,
        tables=[t for t in whole if t],
        folded=[(name, t) for name, t in folded if t],
        heats=heated(tokens, TOKENS * len(influential) // len(runs)),
        heat=heat(tokens),
        version=__version__,
    )


def _section(run: Run, runs: int) -> Section:
    if isinstance(run, TrainingRun):
        steps = run.metrics["step"]
        told = f"A training run of {int(steps.max()):,} steps." if steps.size else ""
        settings = flat(run.config)
        return Section(run.name, (told,), run.warnings, [], settings, [], [], 0)
    samples: list[Checkpoint] = []
    left_out = 0
    if isinstance(run, MeasurementRun):
        samples, left_out = by_checkpoint(run.tables.samples, BUDGET // runs)
    return Section(
        name=run.name,
        sentences=run.sentences,
        warnings=run.warnings,
        changes=tables.changes(run) if isinstance(run, MeasurementRun) else [],
        config=flat(run.config),
        about=flat(run.about),
        samples=samples,
        left_out=left_out,
    )


def _title(runs: Sequence[Run]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    run = runs[0]
    return f"Training run {run.name}" if isinstance(run, TrainingRun) else run.title
