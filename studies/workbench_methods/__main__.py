"""Measure the methods on the workbench policy; resume if it was stopped.

Usage: python -m studies.workbench_methods [RUN], from the root of the repository. RUN,
by default runs/workbench-methods, keeps the training, every pass and every finished
table. Tables are collected into studies/workbench-methods, and those of its README are
printed. One core takes about 20 minutes.
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entrometer import passes
from entrometer.api.progress import Ticker
from entrometer.experiments.experiment import Experiment
from entrometer.experiments.kernel import KERNEL
from entrometer.experiments.kernel.plan import CheckpointPlan, plan
from entrometer.experiments.measure import MEASURE
from entrometer.experiments.requests import Worker, read_draws
from entrometer.experiments.run import run_experiment
from entrometer.runs import newest_complete
from entrometer.runs.rows import table_classes, write_rows
from entrometer.tasks import task
from entrometer.training.run import train
from studies.collected import committed_tables
from studies.workbench_methods import (
    adapters,
    edits,
    errors,
    figures,
    noise,
    pairs,
    prefixes,
    settings,
    weights,
)
from studies.workbench_methods.changes import effects
from studies.workbench_methods.rows import MethodTables
from studies.workbench_methods.where import HERE
from studies.workbench_methods_tables import tables

Found = dict[str, Sequence[Any]]
"""Rows by table."""


def main(run: Path) -> None:
    """Train, measure, collect, print."""
    _train(run)
    _collect(run, _experiments(run))
    HERE.mkdir(exist_ok=True)
    for name in table_classes(MethodTables):
        shutil.copyfile(_path(run, name), HERE / f"{name}.parquet")
    found = committed_tables(HERE, MethodTables)
    figures.write(found, HERE)
    print(tables(found))


def _train(run: Path) -> None:
    directory = run / "training"
    newest = newest_complete(directory)[0] if directory.is_dir() else None
    if newest is None or newest.name != f"checkpoint-{max(settings.STEPS)}":
        with Ticker() as ticker:
            train(
                settings.training(),
                directory,
                progress=ticker.training,
            )


def _experiments(run: Path) -> Path:
    """Run both experiments; return the store of their passes."""
    store = run / "store"
    config: Any
    experiments: tuple[tuple[Experiment[Any, Any], Any], ...] = (
        (MEASURE, settings.measured(run)),
        (KERNEL, settings.kernel(run)),
    )
    for experiment, config in experiments:
        with Ticker() as ticker:
            run_experiment(
                experiment,
                config,
                run / experiment.name,
                store=store,
                progress=partial(ticker.work, experiment.name),
            )
    return store


def _collect(run: Path, store: Path) -> None:
    """Compute the tables that the run lacks, one stage after the other."""
    stages: dict[Callable[[], Found], tuple[str, ...]] = {
        lambda: {"simulated": list(weights.simulated())}: ("simulated",),
        partial(_changes, run, store): ("weighed", "predictions", "errors", "powers"),
        partial(_pairs, run, store): ("prefixes", "features", "examples"),
        partial(_edits, run, store): ("edits",),
        partial(_adapters, run, store): ("agreements", "groups"),
        partial(_noise, run, store): ("noise", "scales"),
    }
    classes = table_classes(MethodTables)
    for compute, names in stages.items():
        if all(_path(run, name).is_file() for name in names):
            continue
        for name, rows in compute().items():
            _path(run, name).parent.mkdir(exist_ok=True)
            write_rows(_path(run, name), classes[name], rows)


def _path(run: Path, name: str) -> Path:
    return run / "tables" / f"{name}.parquet"


def _changes(run: Path, store: Path) -> Found:
    found: dict[str, list[Any]] = {}
    for own in effects(settings.measured(run), store):
        for name, rows in {
            "weighed": weights.weighed(own),
            "predictions": errors.predictions(own),
            "errors": errors.relative_errors(own),
            "powers": errors.powers(own),
        }.items():
            found.setdefault(name, []).extend(rows)
    return dict(found)


def _points(run: Path) -> Iterator[CheckpointPlan]:
    yield from plan(settings.kernel(run))


def _pairs(run: Path, store: Path) -> Found:
    found: dict[str, list[Any]] = {}
    for point in _points(run):
        stored = point.gram.read(store).matrices
        rollouts = read_draws(point.gram.draws, store)
        texts = _prompts(run, rollouts.prompt.tolist())
        S = passes.forward(Worker(store).policy(point.subject), rollouts).S
        exact = {metric: stored[metric] for metric in ("sgd", "adam")}
        for name, rows in {
            "prefixes": prefixes.prefixes(point.name, exact, rollouts),
            "features": pairs.features(point.name, stored["adam"], rollouts, S, texts),
            "examples": pairs.examples(point.name, stored["adam"], rollouts, texts),
        }.items():
            found.setdefault(name, []).extend(rows)
    return dict(found)


def _edits(run: Path, store: Path) -> Found:
    found: list[Any] = []
    for point in _points(run):
        rollouts = read_draws(point.gram.draws, store)
        policy = Worker(store).policy(point.subject)
        P = point.gram.step.read_part(store, "preconditioner")
        found += edits.edits(point.name, policy, rollouts, P)
    return {"edits": found}


def _adapters(run: Path, store: Path) -> Found:
    found: dict[str, list[Any]] = {"agreements": [], "groups": []}
    for point in _points(run):
        rollouts = read_draws(point.gram.draws, store)
        whole = point.gram.read(store).matrices["sgd"]
        rows, shares = adapters.agreements(point.name, point.subject, rollouts, whole)
        found["agreements"] += rows
        found["groups"] += shares
    return dict(found)


def _prompts(run: Path, problems: Sequence[int]) -> list[str]:
    config = settings.kernel(run)
    judge = task(config.task, **config.task_settings())
    every = judge.problems(config.split, config.problems)
    return [judge.prompt(every[i]) for i in problems]


def _noise(run: Path, store: Path) -> Found:
    config = settings.kernel(run)
    found: dict[str, list[Any]] = {"noise": [], "scales": []}
    for point in _points(run):
        rows, scales = noise.noise(config, point.subject, point.name, Worker(store))
        found["noise"] += rows
        found["scales"] += scales
    return dict(found)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/workbench-methods"))
