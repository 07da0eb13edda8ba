"""Measure what one step does to the entropy of checkpoints, and write a report."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from entrometer.cli.measure_plan import dry_run
from entrometer.cli.measure_settings import resolve
from entrometer.cli.output import plain, print_json, table
from entrometer.cli.progress import Ticker
from entrometer.errors import InvalidValue
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.runs.measurement import Change, read_measurement


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    command, config, directory = resolve(arguments)
    store = command.store or directory / "passes"
    if command.print_config:
        print_json(config, indent=1)
        return 0
    if command.dry_run:
        dry_run(config, store, as_json=command.json)
        return 0
    if not command.resume:
        _require_new(directory)
    carry_out(config, directory, store)
    report = _report(directory) if command.report else None
    if command.json:
        print_json(_as_json(directory, report))
    else:
        print(_as_text(directory, report))
    return 0


def carry_out(config: MeasureConfig, directory: Path, store: Path) -> None:
    """Measure, and show how far it has come."""
    from entrometer.experiments.entropy_change.measure import measure

    # An older one would be sealed with the new results.
    (directory / "report.html").unlink(missing_ok=True)
    with Ticker() as ticker:
        progress = partial(ticker.work, "measure")
        measure(config, directory, store=store, progress=progress)


def _require_new(directory: Path) -> None:
    # A config alone is what a measurement leaves that was refused.
    begun = (directory / "results", directory / "manifest.json")
    passes = directory / "passes"
    if any(p.exists() for p in begun) or (passes.is_dir() and any(passes.iterdir())):
        raise InvalidValue(
            f"{directory} holds a measurement already; go on with it by --resume, or "
            "choose another directory with --run"
        )


def _report(directory: Path) -> Path | None:
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        print(
            "entrometer measure: no report, which needs matplotlib and jinja2: "
            "pip install 'entrometer[report]', then entrometer report",
            file=sys.stderr,
        )
        return None
    from entrometer.report import write_report

    return write_report([directory], directory / "report.html")


def _as_json(directory: Path, report: Path | None) -> dict[str, Any]:
    return {
        "run": directory,
        "report": report,
        **_summary(directory),
        "changes": [asdict(change) for change in _changes(directory)],
    }


def _as_text(directory: Path, report: Path | None) -> str:
    summary = _summary(directory)
    rows = [
        [
            c.checkpoint,
            c.update,
            f"{c.eta:.3g}",
            _nats(c.observed, c.observed_low, c.observed_high),
            _nats(c.linear, c.linear_low, c.linear_high),
        ]
        for c in _changes(directory)
    ]
    heads = ["checkpoint", "update", "learning rate", "change", "linear prediction"]
    parts = [
        "\n".join(plain(sentence) for sentence in summary["sentences"]),
        table(heads, rows, words=2)
        + "\nNats a token; brackets: 95% intervals, clustered by prompt.",
        "\n".join(f"warning: {plain(text)}" for text in summary["warnings"]),
        plain(f"report: {report}" if report else f"results: {directory}"),
    ]
    return "\n\n".join(part for part in parts if part)


def _summary(directory: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((directory / "summary.json").read_bytes())
    return summary


def _changes(directory: Path) -> list[Change]:
    """The changes that the summary is about: weighted per decision, a token each."""
    return [
        row
        for row in read_measurement(directory).changes
        if (row.weighting, row.per) == ("per_decision", "token")
    ]


def _nats(value: float, low: float, high: float) -> str:
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"
