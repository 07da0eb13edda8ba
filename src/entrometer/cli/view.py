"""Serve the runs in a directory to the browser of this machine."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.cli.flags import Flag, only, parse
from entrometer.experiments.experiment import run_kinds
from entrometer.text import plain, print_json


@dataclass(frozen=True, kw_only=True)
class View:
    """List the runs in a directory in the browser, and show their pages; read-only."""

    directories: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")
    ] = ()
    """Directory that contains runs, such as `runs`."""

    port: int = 0
    """Port to listen at, on 127.0.0.1 only; 0 for a free one."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(View, arguments, verb="view")
    directory = only(
        command.directories,
        "one directory that contains runs",
        "name one, such as runs",
    )
    # Imported late: `--help` must not load starlette or matplotlib.
    from entrometer.view.server import serve

    def started(url: str, count: int) -> None:
        if command.json:
            print_json({"url": url, "runs": count})
        else:
            runs = "1 run" if count == 1 else f"{count:,} runs"
            print(plain(f"{runs} in {directory}: open {url}"))
            print("Control+C stops the server.")
        # The reader may be another program, and the server runs on.
        sys.stdout.flush()

    try:
        serve(directory, run_kinds(), port=command.port, started=started)
    except KeyboardInterrupt:
        # The usual way to stop it.
        return 0
    return 0
