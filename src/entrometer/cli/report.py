"""Write finished runs as one HTML page, and their figures as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.experiments.experiment import run_kinds
from entrometer.text import plain, print_json


@dataclass(frozen=True, kw_only=True)
class Write:
    """Write measurements and training runs as one page; several are compared."""

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")
    ] = ()
    """Directories of finished runs."""

    out: Path | None = None
    """Page to write; by default report.html in the run, or in `.` for several runs."""

    figures: Path | None = None
    """Directory to also write every figure into; for several runs, a folder each."""

    formats: tuple[Literal["svg", "png", "pdf"], ...] = ("svg", "png")
    """File formats of each figure."""

    inspect: Path | None = None
    """Directory to write the responses of an evaluation into as well, as logs of
    Inspect that `inspect view` opens."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Write, arguments, verb="report")
    if not command.runs:
        raise InvalidValue("expected directories of finished runs, got none; name one")
    from entrometer.report import write_figures, write_report
    from entrometer.runs.finished import unsealed, unsealed_files

    kinds = run_kinds()
    single = len(command.runs) == 1
    out = command.out or (command.runs[0] if single else Path()) / "report.html"
    write_report(command.runs, out, kinds)
    figures: list[Path] = []
    if command.figures is not None:
        for number, path in enumerate(command.runs, start=1):
            name = f"{number}-{path.resolve().name}"
            into = command.figures if single else command.figures / name
            figures += write_figures(path, into, command.formats, kinds)
    logs: tuple[Path, ...] = ()
    if command.inspect is not None:
        from entrometer.experiments.evaluation.inspect_logs import write_inspect_logs

        for path in command.runs:
            logs += write_inspect_logs(command.inspect, path)
    found = {str(path): unsealed_files(path) for path in command.runs}
    without = {path: names for path, names in found.items() if names}
    if command.json:
        files = {"report": out, "figures": figures, "inspect": logs}
        print_json(files | {"unsealed": without})
    else:
        print(plain(f"report: {out}"))
        for run_path, names in without.items():
            print(plain(f"warning: {run_path}: {unsealed(', '.join(names))}"))
        if figures:
            print(plain(f"figures: {len(figures)} files in {command.figures}"))
        if logs:
            print(plain(f"inspect: {len(logs)} logs in {command.inspect}"))
    return 0
