"""A verb that carries out an experiment on checkpoints: what all of them share."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from entrometer.cli.outlook import print_outlook
from entrometer.cli.output import plain, print_json
from entrometer.cli.progress import Ticker
from entrometer.cli.settings import Asked, resolve
from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig

if TYPE_CHECKING:
    from entrometer.engine import Engine
    from entrometer.experiments.forecast import Outlook

Config = TypeVar("Config", bound=ExperimentConfig)


class Functions(NamedTuple):
    """The functions of an experiment, which need torch."""

    carry_out: Callable[..., object]
    """`carry_out(config, run, store=, progress=, engine=)` leaves a run directory."""

    foresee: "Callable[[Any, Path], Outlook]"
    """`foresee(config, store)` plans it, and times a little of it."""


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """An experiment as the command line knows it."""

    verb: str
    command: type[Asked]
    """Its settings and habits."""

    config: type[Config]
    """Its settings alone."""

    functions: Callable[[], Functions]
    """Loads it; help is told without."""

    text: Callable[[Path], Sequence[str]]
    """The tables of a finished run, as paragraphs."""

    rows: Callable[[Path], dict[str, Any]]
    """The same for --json."""

    def run(self, arguments: Sequence[str]) -> int:
        """Carry the verb out."""
        command, config, directory = resolve(
            self.verb, self.command, self.config, arguments
        )
        store = command.store or directory / "passes"
        if command.print_config:
            print_json(config, indent=1)
            return 0
        if command.dry_run:
            began = time.perf_counter()
            functions = self.functions()
            start = time.perf_counter() - began
            outlook = functions.foresee(config, store)
            print_outlook(config, outlook, start, as_json=command.json)
            return 0
        if not command.resume:
            _require_new(directory)
        self.carry_out(config, directory, store, engine_of(command))
        report = self.report(directory) if command.report else None
        if command.json:
            found = {"run": directory, "report": report, **_summary(directory)}
            print_json(found | self.rows(directory))
        else:
            print(self.told(directory, report))
        return 0

    def carry_out(
        self,
        config: Config,
        directory: Path,
        store: Path,
        engine: "Engine | None" = None,
    ) -> None:
        """Carry the experiment out, and show how far it has come."""
        # An older one would be sealed with the new results.
        (directory / "report.html").unlink(missing_ok=True)
        with Ticker(log=directory / "progress.log") as ticker:
            progress = partial(ticker.work, self.verb)
            self.functions().carry_out(
                config, directory, store=store, progress=progress, engine=engine
            )

    def report(self, directory: Path) -> Path | None:
        """Write the report, if what it needs is there."""
        if find_spec("matplotlib") is None or find_spec("jinja2") is None:
            print(
                f"entrometer {self.verb}: no report, which needs matplotlib and "
                "jinja2: pip install 'entrometer[report]', then entrometer report",
                file=sys.stderr,
            )
            return None
        from entrometer.report import write_report

        return write_report([directory], directory / "report.html")

    def told(self, directory: Path, report: Path | None) -> str:
        """What is printed of a finished run."""
        summary = _summary(directory)
        parts = [
            "\n".join(plain(sentence) for sentence in summary["sentences"]),
            *self.text(directory),
            "\n".join(f"warning: {plain(text)}" for text in summary["warnings"]),
            plain(f"report: {report}" if report else f"results: {directory}"),
        ]
        return "\n\n".join(part for part in parts if part)


def engine_of(command: Asked) -> "Engine | None":
    """The engine that was asked for; None for this process."""
    if command.engine == "here":
        if command.address is not None or command.workers:
            raise InvalidValue(
                "expected --address and --workers with --engine ray, got "
                "--engine here; add --engine ray"
            )
        return None
    if find_spec("ray") is None:
        raise InvalidValue(
            "expected Ray for --engine ray, which is not installed: "
            "pip install 'entrometer[ray]'"
        )
    from entrometer.engine.on_ray import OnRay

    return OnRay(
        address=command.address,
        workers=command.workers,
        cpus=command.worker_cpus,
        gpus=command.worker_gpus,
    )


def interval(value: float, low: float, high: float) -> str:
    """An estimate with its interval, for a table."""
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def _require_new(directory: Path) -> None:
    # A config alone is what an experiment leaves that was refused.
    begun = (directory / "results", directory / "manifest.json")
    passes = directory / "passes"
    if any(p.exists() for p in begun) or (passes.is_dir() and any(passes.iterdir())):
        raise InvalidValue(
            f"{directory} holds a run already; go on with it by --resume, or choose "
            "another directory with --run"
        )


def _summary(directory: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_bytes())
    return summary
