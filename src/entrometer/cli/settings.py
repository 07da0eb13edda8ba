"""What an experiment was asked, with what a run or a training says beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from entrometer.api.settings import (
    read_settings,
    require_known,
    require_some,
    run_directory,
    trained_settings,
)
from entrometer.cli.parse import Flag, Habits, parse
from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig

Config = TypeVar("Config", bound=ExperimentConfig)


@dataclass(frozen=True, kw_only=True)
class Asked(Habits):
    """What every experiment on checkpoints can be asked beside its settings.

    A verb's command has this class first and its settings second among its bases.
    """

    checkpoints: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT...")
    ] = ()
    """Directories of checkpoints: a model or an adapter, and its AdamW."""

    run: Path | None = None
    """Directory of the results; by default runs/, with the verb, the checkpoints' names
    and a hash of their content and the settings."""

    resume: Flag = False
    """Resume the run in a directory, with the checkpoints and the settings that it has;
    other settings, but no other checkpoints, can be given."""

    store: Path | None = None
    """Where passes are kept; by default in the run directory. Runs may share one."""

    engine: Literal["here", "ray"] = "here"
    """Where passes are made: in this process, or on a Ray cluster whose nodes all see
    the store."""

    address: str | None = None
    """Of the Ray cluster, as `auto`; by default one is started on this machine."""

    workers: int = 0
    """Workers at a time on Ray; 0 for as many as the cluster holds."""

    worker_cpus: float = 1.0
    """Processor cores of a worker."""

    worker_gpus: float = 0.0
    """GPUs of a worker; they also need --device cuda."""

    report: bool = True
    """Write report.html into the run directory."""

    def __post_init__(self) -> None:
        """Leave the checks to the settings, made when all of them are known."""


def resolve(
    verb: str, command: type[Asked], config: type[Config], arguments: Sequence[str]
) -> tuple[Asked, Config]:
    """The command, and the settings of the experiment."""
    asked = parse(command, arguments, verb=verb)
    if not (asked.resume and asked.run):
        require_some(asked.checkpoints)
    # A run may have been stopped before it could save its settings. A directory that
    # is not named has the settings in its name: they are those of the arguments.
    begun = (
        asked.resume
        and asked.run is not None
        and (not asked.checkpoints or (asked.run / "config.json").exists())
    )
    begin = (
        read_settings(verb, config, asked.run)
        if begun and asked.run is not None
        else trained_settings(asked.checkpoints)
    )
    default = replace(command(), **begin)
    given: Any = parse(command, arguments, verb=verb, default=default)
    settings = {f.name: getattr(given, f.name) for f in fields(config)}
    require_known(given.checkpoints, settings, prefix="--")
    return given, config(**settings)


def results_directory(verb: str, command: Asked, config: ExperimentConfig) -> Path:
    """Where the results go: `--run`, or a name made from the inputs."""
    if command.run is not None:
        return command.run
    directory = run_directory(verb, config)
    if command.resume and not directory.is_dir():
        raise InvalidValue(
            f"expected a run of these checkpoints and settings in {directory} to "
            "resume, got no such directory; leave --resume out, or name a run with "
            "--run"
        )
    return directory
