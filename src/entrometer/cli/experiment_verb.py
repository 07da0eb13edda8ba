"""The verb of an experiment: resolve settings, estimate its cost or run it, print."""

import time
from collections.abc import Sequence
from dataclasses import fields, make_dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrometer.api.preflight import preflight
from entrometer.api.progress import Ticker
from entrometer.api.settings import (
    default_store,
    expanded,
    require_known,
    require_some,
    run_directory,
    trained_settings,
    with_own_prompts,
)
from entrometer.cli import torchrun
from entrometer.cli.flags import ExperimentFlags, parse
from entrometer.errors import InvalidValue
from entrometer.experiments.config import CheckpointConfig, NextBatchesConfig
from entrometer.experiments.experiment import Experiment
from entrometer.experiments.settings import read_settings, require_own, settings_of_file
from entrometer.runs import verified
from entrometer.text import (
    clock,
    file_size,
    listed,
    plain,
    precision_text,
    print_json,
    table,
)

if TYPE_CHECKING:
    from entrometer.engine import Engine
    from entrometer.experiments.cost import CostEstimate, Timing

_NAMED = 4
"""Most checkpoints that progress output names."""

_REPORT = 0.4
"""Seconds of writing a report, per second that loading the program takes."""


@torchrun.one_voice()
def run(experiment: Experiment[Any, Any], arguments: Sequence[str]) -> int:
    """Run an experiment, or only print its settings or cost; return the exit code."""
    flags, config = resolve(experiment, arguments)
    if flags.print_config:
        print_json(config, indent=1)
        return 0
    torchrun.require_processes(
        config.model_shards, engine=flags.engine, dry_run=flags.dry_run
    )
    preflight(
        config,
        of_steps=not experiment.inside_training,
        grades=experiment.grades,
        elsewhere=flags.engine == "ray",
    )
    if flags.run is not None:
        require_own(experiment, flags.run)
    if torchrun.follows():
        return torchrun.follow()
    with Ticker() as ticker:
        # Before anything is loaded: importing torch alone takes seconds.
        ticker.begin(f"{experiment.name} {_named(config.checkpoints)}")
        return _run(experiment, flags, config, ticker)


def _run(
    experiment: Experiment[Any, Any],
    flags: ExperimentFlags,
    config: CheckpointConfig,
    ticker: Ticker,
) -> int:
    directory = _directory(experiment, flags, config)
    store = flags.store or default_store(experiment, directory)
    if flags.dry_run:
        began = time.perf_counter()
        from entrometer.experiments.cost import estimate_cost

        start = time.perf_counter() - began
        estimate = estimate_cost(experiment, config, store)
        ticker.end()
        _print_estimate(config, estimate, start, as_json=flags.json)
        return 0
    if not flags.resume:
        _require_new(directory)
    engine = engine_of(flags, config.model_shards)
    # Imported late: these need torch, and `--help` should not wait for it.
    from entrometer.api.result import Result
    from entrometer.experiments.run import run_experiment

    ticker.log = directory / "progress.log"
    with torchrun.leading() as engine_of_group:
        run_experiment(
            experiment,
            config,
            directory,
            store=store,
            progress=partial(ticker.work, experiment.name),
            engine=engine_of_group or engine,
        )
    result = Result(directory, experiment)
    report = result.report() if flags.report else None
    ticker.end()
    if flags.json:
        summary = {"run": directory, "report": report, **result.summary}
        print_json(summary | dict(experiment.json_rows(result.tables)))
    else:
        print(result.text(report))
    return 0


def command_of(experiment: Experiment[Any, Any]) -> type[ExperimentFlags]:
    """Return the class of a verb's command line: its settings, then common flags."""
    bases = (ExperimentFlags, experiment.config)
    command = make_dataclass(
        experiment.name, (), bases=bases, frozen=True, kw_only=True
    )
    command.__doc__ = (
        f"{experiment.help}\n\nTask, level, problems (not eval), policy, temperature, "
        "length limit, format weight, gradient clipping and intervention default to "
        "those of the training whose config.json is next to the checkpoint."
    )
    return command


def resolve(
    experiment: Experiment[Any, Any], arguments: Sequence[str]
) -> tuple[ExperimentFlags, Any]:
    """Return flags and config: arguments, else the resumed run's or the training's."""
    name, command = experiment.name, command_of(experiment)
    # Parsed twice: the first time says whose settings are the defaults of the second.
    asked = parse(command, arguments, verb=name)
    given = {} if asked.config is None else settings_of_file(experiment, asked.config)
    checkpoints = asked.checkpoints or given.get("checkpoints", ())
    if not (asked.resume and asked.run):
        require_some(checkpoints)
    # A run may have been stopped before it could save its settings.
    saved = asked.run is not None and (
        not checkpoints or (asked.run / "config.json").exists()
    )
    if asked.resume and saved and asked.run is not None:
        defaults = read_settings(experiment, asked.run)
    else:
        paths = expanded(checkpoints)
        defaults = trained_settings(paths, experiment.config)
    defaults |= given
    flags: Any = parse(
        command, arguments, verb=name, default=replace(command(), **defaults)
    )
    flags = replace(flags, checkpoints=expanded(flags.checkpoints))
    settings = {f.name: getattr(flags, f.name) for f in fields(experiment.config)}
    require_known(flags.checkpoints, settings, prefix="--")
    return flags, with_own_prompts(experiment.config(**settings))


def _named(checkpoints: Sequence[str]) -> str:
    names = ["/".join(Path(path).parts[-2:]) for path in checkpoints]
    return listed(names, _NAMED, between=" ")


def engine_of(flags: ExperimentFlags, shards: int = 1) -> "Engine | None":
    """Return the engine that the flags name; None for this process.

    `shards` is the number of processes that hold a model together.
    """
    if flags.engine == "local":
        of_ray = ("address", "workers", "worker_cpus", "worker_gpus")
        given = [n for n in of_ray if getattr(flags, n) != getattr(ExperimentFlags, n)]
        if given:
            flag = given[0].replace("_", "-")
            raise InvalidValue(
                f"expected --{flag} with --engine ray, got --engine local; add "
                "--engine ray"
            )
        return None
    if find_spec("ray") is None:
        raise InvalidValue(
            "expected Ray for --engine ray, which is not installed: "
            "pip install 'entrometer[ray]'"
        )
    from entrometer.engine.ray_engine import RayEngine

    return RayEngine(
        address=flags.address,
        workers=flags.workers,
        cpus=flags.worker_cpus,
        gpus=flags.worker_gpus,
        shards=shards,
    )


def _directory(
    experiment: Experiment[Any, Any], flags: ExperimentFlags, config: CheckpointConfig
) -> Path:
    """Return `--run`, or the directory named for the inputs."""
    if flags.run is not None:
        return flags.run
    directory = run_directory(experiment, config)
    if flags.resume and not directory.is_dir():
        raise InvalidValue(
            f"expected a run of these checkpoints and settings in {directory} to "
            "resume, got no such directory; leave --resume out, or name a run with "
            "--run"
        )
    return directory


def _require_new(directory: Path) -> None:
    about = verified(directory, names=())
    if about is not None and about.get("finished", True):
        got = "a finished run"
    elif any((directory / "passes").glob("*")):
        got = "a run that was stopped before its end"
    else:
        # A run that was stopped at once leaves settings and nothing to lose.
        return
    raise InvalidValue(
        f"{directory} already holds {got}; resume it with --resume, or choose another "
        "directory with --run"
    )


def _print_estimate(
    config: CheckpointConfig, estimate: "CostEstimate", start: float, *, as_json: bool
) -> None:
    """Print the plan, with its time and memory on this machine.

    Args:
        config: Settings of the experiment.
        estimate: What it takes.
        start: Seconds of loading the program.
        as_json: Print one JSON object instead of text.
    """
    rest = start * (1 + _REPORT)
    # Loaded by the estimate already.
    from entrometer.policy.precision import as_device

    device = str(as_device(config.device))
    gpu_hours = 0.0 if device == "cpu" else estimate.seconds / 3600
    if as_json:
        print_json(
            {
                "stages": estimate.stages,
                "loading_seconds": estimate.loading,
                "studies_seconds": estimate.after,
                "start_and_report_seconds": rest,
                "seconds": estimate.seconds + rest,
                "gpu_hours": gpu_hours,
                "memory_bytes": estimate.memory.total if estimate.memory else 0.0,
            }
        )
        return
    rows = [
        [name, str(s.passes), str(s.done), str(s.responses), clock(s.seconds)]
        for name, s in estimate.stages.items()
    ]
    others = {
        "loading": estimate.loading,
        "studies after the passes": estimate.after,
        "start and report": rest,
    }
    rows += [[name, "", "", "", clock(seconds)] for name, seconds in others.items()]
    print(table(["pass", "passes", "done", "responses", "time left"], rows))
    print()
    how = "; every pass is already stored"
    if estimate.timing is not None:
        lengths = estimate.timing.lengths
        how = (
            f", from timing each kind of pass on some of {len(lengths)} responses of "
            f"{sum(lengths) / len(lengths):.0f} tokens"
        )
    print(f"time: about {clock(estimate.seconds + rest)}{how}")
    print(f"GPU-hours: {gpu_hours:.3g} on {plain(device)}")
    if estimate.timing is not None:
        print(_memory_line(config, estimate.timing, estimate))
    if isinstance(config, NextBatchesConfig) and config.batches > 1:
        print(_power_line(config.batches))


def _power_line(batches: int) -> str:
    # Loaded by the estimate already.
    from entrometer.estimators import smallest_seen

    return (
        f"verdict: {batches} batches tell an expected change from 0 in 4 of 5 cases if "
        f"it is at least {smallest_seen(batches):.2g} times the standard deviation of "
        "a single batch's, with prompts enough that they add no noise of their own"
    )


def _memory_line(
    config: CheckpointConfig, timing: "Timing", estimate: "CostEstimate"
) -> str:
    memory = estimate.memory
    assert memory is not None
    return (
        f"memory: roughly {file_size(memory.total)} besides Python and torch: "
        f"{timing.parameters / 1e6:.3g} M parameters in "
        f"{precision_text(config.precision)} "
        f"({file_size(memory.weights)}), moments, steps and gradients of the "
        f"{timing.trained / 1e6:.3g} M trained ({file_size(memory.vectors)}), "
        f"activations of a batch ({file_size(memory.activations)})"
    )
