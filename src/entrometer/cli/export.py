"""Write a finished run as a folder or one file to share, without texts and paths."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.cli.flags import Flag, only, parse
from entrometer.experiments.experiment import run_kinds
from entrometer.text import plain, print_json


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a finished run to share: page, tables, settings, and a card.

    Prompts, responses and paths are left out unless asked for.
    """

    runs: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")
    ] = ()
    """Directory of a finished run."""

    out: Path | None = None
    """Folder to write, or a file that ends in .zip; by default NAME-export in `.`."""

    texts: Flag = False
    """Keep prompts, responses and tokens."""

    paths: Flag = False
    """Keep paths as they are, in place of their last part."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Export, arguments, verb="export")
    source = only(command.runs, "the directory of one finished run", "name one")
    # Imported late: `--help` must not load matplotlib.
    from entrometer.report.export import export_run

    done = export_run(
        source,
        command.out or Path(f"{source.resolve().name}-export"),
        run_kinds(),
        texts=command.texts,
        paths=command.paths,
    )
    if command.json:
        print_json({"export": done.path, "texts": done.texts, "paths": done.paths})
    else:
        print(plain(f"export: {done.path}"))
        print(
            f"left out: {done.texts:,} texts, all but the ends of {done.paths:,} paths"
        )
    return 0
