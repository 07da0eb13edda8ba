"""Runs an experiment: plan, passes, follow-up passes, tables, summary, seal."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entrometer.engine import Engine, LocalEngine, Manifest, Progress, Status, quiet
from entrometer.engine.schedule import name_of
from entrometer.experiments.config import CheckpointConfig
from entrometer.experiments.experiment import Config, Experiment, Point, Tables
from entrometer.experiments.inputs import inputs, require_same, unsealed_inputs
from entrometer.experiments.requests import Request, Subject
from entrometer.experiments.requests.make_worker import MakeWorker
from entrometer.experiments.sampled_by import (
    assumed_losses,
    assumed_samplers,
    engine_evaluations,
    recorded_of,
    short_name,
)
from entrometer.experiments.settings import require_own
from entrometer.runs import hold, seal, verify, write_json
from entrometer.runs.finished import unsealed
from entrometer.runs.locations import relative_path, relative_source
from entrometer.runs.rows import table_classes, write_rows
from entrometer.runs.settings import (
    CONFIG,
    about_machine,
    as_json,
    save_settings,
    sealed_settings,
)
from entrometer.runs.updates import read_update

logger = logging.getLogger(__name__)

Stages = dict[str, dict[str, float | int]]
"""Number of passes and their seconds, by kind."""


def run_experiment(
    experiment: Experiment[Config, Tables],
    config: Config,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = quiet,
    engine: Engine | None = None,
) -> Tables:
    """Run an experiment, write a complete run directory, and return the tables.

    Passes that the store already has are reused: from a run that was stopped, from one
    with other settings, or from another experiment on the same samples.

    Args:
        experiment: The experiment to run.
        config: Its settings.
        run: The run directory; created if missing.
        store: Directory of the passes; `passes` in the run directory by default.
            Several runs may share one.
        progress: Called after each pass.
        engine: Where passes run; this process by default.
    """
    engine = engine or LocalEngine()
    steps = experiment.steps()
    require_own(experiment, run)
    # Plan first: settings that it refuses must leave no trace in the directory.
    points = steps.plan(config)
    with hold(run):
        # A page of earlier results would be sealed with the new ones.
        (run / "report.html").unlink(missing_ok=True)
        store = _begin(experiment.name, config, run, store)
        stages: Stages = {}
        requests = requests_of(points)
        total = work_left(requests_of(steps.expected(config, points, store)), store)
        before, done = 0.0, set[str]()
        for _ in range(steps.rounds(config)):
            if steps.follow_up is None:
                break
            now = work_left(requests, store)
            rest = {"before": before, "after": max(0.0, total - before - now)}
            run_requests(requests, store, progress, engine, **rest, stages=stages)
            before += now
            done |= {request.key for request in requests}
            # Only now do the results decide which passes follow.
            points = steps.follow_up(config, points, store)
            requests = [r for r in requests_of(points) if r.key not in done]
        run_requests(requests, store, progress, engine, before=before, stages=stages)
        tables: Tables = steps.collect(config, points, store)
        summary = steps.summarize(config, tables)
        _finish(experiment, config, run, store, tables, summary, points, stages)
    return tables


def requests_of(points: Sequence[Point]) -> list[Request]:
    """Return the requests of all points, in the order of the points."""
    return [request for point in points for request in point.requests()]


def run_requests(
    requests: Iterable[Request],
    store: Path,
    progress: Progress,
    engine: Engine,
    *,
    before: float = 0.0,
    after: float = 0.0,
    stages: Stages | None = None,
) -> None:
    """Run the requests that the store lacks; add their number and seconds to `stages`.

    `before` and `after` are costs of earlier and later calls, which progress includes.
    """
    # A list, because it is read twice and may be a generator.
    requests = list(requests)
    lacking = missing(requests, store)
    kinds, finished = Counter(r.kind for r in lacking), Counter[str]()

    def tell(status: Status) -> None:
        # The note of a request that succeeded is its kind.
        finished.update({status.note} & kinds.keys())
        counts = {kind: (finished[kind], total) for kind, total in kinds.items()}
        done, total = before + status.done, before + status.total + after
        progress(replace(status, done=done, total=total, stages=counts))

    manifest = Manifest(store)
    reused = [name for name in map(name_of, requests) if name in manifest]
    for note in manifest.notes(reused, map(name_of, lacking)):
        logger.warning("%s", note)
    make_worker = MakeWorker.with_registered()
    rows = engine.run(lacking, worker=make_worker, store=store, progress=tell)
    stages = {} if stages is None else stages
    for row in rows:
        stage = stages.setdefault(row.kind, {"passes": 0, "seconds": 0.0})
        stage["passes"] += 1
        stage["seconds"] += row.seconds


def missing(requests: Iterable[Request], store: Path) -> list[Request]:
    """Return the requests that the store lacks, each once, after their pieces.

    Raises if a result in the store has another hash than the store's log lists.
    """
    manifest = Manifest(store)
    lacking: dict[str, Request] = {}

    def look_up(request: Request) -> None:
        name = name_of(request)
        if name in lacking:
            return
        if name in manifest:
            manifest.require_whole(name)
            return
        # Pieces are looked up only now: a finished request does not need them, and
        # they are deleted.
        for piece in request.pieces:
            look_up(piece)
        lacking[name] = request

    for request in requests:
        look_up(request)
    return list(lacking.values())


def work_left(requests: Iterable[Request], store: Path) -> float:
    """Return the cost of the missing requests, in forward passes over one response."""
    return sum((request.cost for request in missing(requests, store)), start=0.0)


def _begin(kind: str, config: CheckpointConfig, run: Path, store: Path | None) -> Path:
    # An existing run is resumed only with the same checkpoints and problems and an
    # unedited config.json. Until `_finish`, the manifest says that it is not finished.
    store = store or run / "passes"
    about = {"kind": kind, "finished": False, **inputs(config)}
    earlier = sealed_settings(run)
    if earlier is not None:
        require_same(run, earlier, {**about, "settings": as_json(asdict(config))})
    for directory in (store, run):
        directory.mkdir(parents=True, exist_ok=True)
    # Relative to the run, so that run and checkpoints can be moved together.
    sources = {
        "checkpoints": [relative_path(path, run) for path in config.checkpoints],
        "policy": config.policy and relative_source(config.policy, run),
    }
    save_settings(run, asdict(config) | sources, about)
    return store


def _finish(
    experiment: Experiment[Any, Tables],
    config: CheckpointConfig,
    run: Path,
    store: Path,
    tables: Tables,
    summary: dict[str, Any],
    points: Sequence[Point],
    stages: Mapping[str, Any],
) -> None:
    # Settings that were edited meanwhile do not belong to these results.
    started = verify(run, names=[CONFIG])
    without = unsealed_inputs(config)
    recorded = recorded_of(points)
    drawn = [*engine_evaluations(points, store)]
    sentences = [
        *summary["sentences"],
        *(text for text, little in drawn if not little),
        *assumed_samplers(recorded),
    ]
    warnings = [
        *summary["warnings"],
        *(text for text, little in drawn if little),
        *map(unsealed, without),
        *assumed_losses(recorded),
    ]
    results = run / "results"
    results.mkdir(exist_ok=True)
    for name, row in table_classes(experiment.tables).items():
        write_rows(results / f"{name}.parquet", row, getattr(tables, name))
    said = {"sentences": sentences, "warnings": warnings, "unsealed": without}
    summary = summary | said
    write_json(run / "summary.json", summary)
    subjects = {point.name: _described(point.subject, run) for point in points}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"date": date, "inputs": subjects, "stages": stages, **about_machine()}
    # What the recorded updates say themselves: settings may name another loss.
    losses = {short_name(b): read_update(b.path).settings.loss for b in recorded}
    about["losses"] = {name: loss for name, loss in losses.items() if loss}
    about["store"] = relative_path(store, run)
    write_json(run / "about.json", about)
    # Last: a run whose manifest says that it is finished has all its files.
    seal(run, about={**started, "finished": True}, without=("passes",))


def _described(subject: Subject, run: Path) -> dict[str, Any]:
    return {f.name: getattr(subject, f.name) for f in fields(subject)} | {
        "advanced": subject.advanced and subject.advanced.key,
        "path": relative_path(subject.path, run),
        "base": subject.base and relative_source(subject.base, run),
    }
