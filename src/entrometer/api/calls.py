"""Checkpoints and experiments as functions: the verbs of the command line."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrometer.api.preflight import preflight
from entrometer.api.progress import Ticker
from entrometer.api.result import Result
from entrometer.api.settings import (
    default_store,
    expanded,
    require_known,
    run_directory,
    trained_settings,
    with_own_prompts,
)
from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.experiment import experiment
from entrometer.experiments.settings import as_settings
from entrometer.runs import verified

if TYPE_CHECKING:
    from entrometer.engine import Engine
    from entrometer.policy import Checkpoint


def load(
    path: str | Path,
    *,
    base: str | Path | None = None,
    precision: str = "float32",
    device: str = "cpu",
) -> "Checkpoint":
    """Load a `checkpoint-N`: the policy, and AdamW's state, settings and learning rate.

    The files are compared with the checkpoint's manifest first, if it has one.

    Args:
        path: The directory.
        base: Base model of an adapter; by default what the training's config.json or
            else the adapter's own config names.
        precision: `float32`, `float64`, `bfloat16` or `mixed`.
        device: Device of the policy.
    """
    from entrometer.policy import load_checkpoint

    verified(Path(path), beside=False)
    base = base or trained_settings([str(path)]).get("policy")
    return load_checkpoint(path, base=base, precision=precision, device=device)


def run(
    name: str,
    *checkpoints: str | Path,
    run: str | Path | None = None,
    store: str | Path | None = None,
    engine: "Engine | None" = None,
    **settings: Any,
) -> Result:
    """Run an experiment, built in or registered by you, and return its result.

    Args:
        name: `diagnose`, `eval`, `measure`, `influence`, `kernel`, `compare`,
            `mismatch`, `fork`, `trajectory` or a registered name.
        checkpoints: Directories `checkpoint-N`, or trainings for all of theirs.
        run: Directory of the results; by default in runs/ (`eval`: in the training's),
            named for the checkpoints, with a hash of their content and the settings. An
            existing run of these checkpoints is resumed; finished passes are reused.
        store: Directory of the passes; by default in the run. Runs may share one.
        engine: Where passes run; this process by default.
        settings: Settings of the experiment, as `entrometer NAME --help` lists them; by
            default those of the training next to the checkpoints.
    """
    from entrometer.experiments.run import run_experiment

    record = experiment(name)
    names = [f.name for f in fields(record.config)]
    for setting in settings:
        if setting not in names:
            raise InvalidValue(
                f"no setting {setting!r}.{nearest_name(setting, names)} `entrometer "
                f"{name} --help` lists the settings"
            )
    paths = expanded([str(path) for path in checkpoints])
    defaults = trained_settings(paths, record.config)
    chosen = defaults | {"split": record.config.split} | settings
    require_known(paths, chosen)
    config = record.config(checkpoints=paths, **as_settings(chosen))
    config = with_own_prompts(config)
    preflight(
        config,
        of_steps=not record.inside_training,
        grades=record.grades,
        elsewhere=engine is not None,
    )
    directory = run_directory(record, config) if run is None else Path(run)
    with Ticker(log=directory / "progress.log") as ticker:
        run_experiment(
            record,
            config,
            directory,
            store=default_store(record, directory) if store is None else Path(store),
            progress=partial(ticker.work, name),
            engine=engine,
        )
    return Result(directory, record)


def _verb(name: str, summary: str) -> Callable[..., Result]:
    def verb(
        *checkpoints: str | Path,
        run: str | Path | None = None,
        store: str | Path | None = None,
        engine: "Engine | None" = None,
        **settings: Any,
    ) -> Result:
        return _run(name, *checkpoints, run=run, store=store, engine=engine, **settings)

    verb.__name__ = verb.__qualname__ = name
    verb.__doc__ = f"""{summary}

    Args:
        checkpoints: Directories `checkpoint-N`, or trainings for all of theirs.
        run: Directory of the results, as for `run`.
        store: Directory of the passes, as for `run`.
        engine: Where passes run, as for `run`.
        settings: Settings that `entrometer {name} --help` lists.
    """
    return verb


_run = run

diagnose = _verb(
    "diagnose", "Find what drains entropy at checkpoints, and which remedy would help."
)
measure = _verb(
    "measure", "Measure how much one optimizer step changes the entropy of checkpoints."
)
influence = _verb(
    "influence", "Find the influence of every token of an update on entropy and reward."
)
kernel = _verb(
    "kernel",
    "Measure how a step on one response changes another's log-prob: the kernel.",
)
evaluate = _verb("eval", "Evaluate checkpoints: pass@k, format, length and entropy.")
compare = _verb(
    "compare", "Compare remedies: what a step under each does to entropy and reward."
)
mismatch = _verb(
    "mismatch",
    "Measure how far the engine that sampled is from the trainer, and what that does.",
)
fork = _verb(
    "fork",
    "Train a few steps under each of several losses from a checkpoint, and compare.",
)
trajectory = _verb(
    "trajectory",
    "Explain the entropy curve of a whole training by its recorded updates.",
)
