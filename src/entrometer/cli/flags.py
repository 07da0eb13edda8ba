"""Command-line flags from dataclasses, and every mistake in them as one line."""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro

from entrometer.errors import InvalidValue, nearest_name

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""False unless it is given; there is no `--no-` form."""

Command = TypeVar("Command")

_BORDERS = re.compile(r"[─│╭╮╰╯]")


@dataclass(frozen=True, kw_only=True)
class CommonFlags:
    """Flags of `train` and of every experiment."""

    dry_run: Flag = False
    """Print the work left, its time and, of experiments, its memory; write nothing."""

    print_config: Flag = False
    """Print the resolved settings as JSON, and do nothing else."""

    json: Flag = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True, kw_only=True)
class ExperimentFlags(CommonFlags):
    """Flags of every experiment, besides its settings.

    The command of a verb lists this class before the config class among its bases.
    """

    checkpoints: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT...")
    ] = ()
    """Checkpoints (model or adapter, with AdamW), or trainings for all of theirs."""

    config: Path | None = None
    """Settings from a JSON file, such as --print-config prints; flags override them."""

    run: Path | None = None
    """Directory of the results; by default in runs/ (of eval: in the training's), with
    the checkpoints' names and a hash of their content and the settings."""

    resume: Flag = False
    """Resume the run in --run or in the default directory, with its checkpoints and,
    where no others are given, its settings."""

    store: Path | None = None
    """Directory of the passes; by default in the run directory. Runs may share one."""

    engine: Literal["local", "ray"] = "local"
    """Where passes run: in this process, or on a Ray cluster whose nodes all see the
    store."""

    address: str | None = None
    """Address of the Ray cluster, such as `auto`; by default a cluster is started on
    this machine."""

    workers: int = 0
    """Most workers at a time on Ray; 0 for as many as the cluster holds."""

    worker_cpus: float = 1.0
    """Processor cores per worker."""

    worker_gpus: float = 0.0
    """GPUs per worker; also needs --device cuda."""

    report: bool = True
    """Write report.html into the run directory."""

    def __post_init__(self) -> None:
        """Skip the checks of the config: not all of its values are known yet."""


def parse(
    kind: type[Command],
    arguments: Sequence[str],
    *,
    verb: str,
    default: Command | None = None,
) -> Command:
    """Return the command; `--help` prints and exits, a mistake raises InvalidValue."""
    message = io.StringIO()
    try:
        with redirect_stderr(message):
            command, unknown = _tyro(kind, list(arguments), verb, default)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InvalidValue(_one_line(message.getvalue())) from None
    if unknown:
        # The value of an unknown flag is left over with it: name the flag.
        name = next((x for x in unknown if x.startswith("-")), unknown[0])
        name = name.partition("=")[0]
        what = "setting" if name.startswith("-") else "place for the argument"
        near = nearest_name(name, _flag_names(kind, verb))
        raise InvalidValue(
            f"no {what} {name!r}.{near} `entrometer {verb} --help` lists the settings"
        )
    return command


def only(given: Sequence[Path], expected: str, remedy: str) -> Path:
    """Return the one path that a verb takes; raise for none and for several."""
    if len(given) != 1:
        raise InvalidValue(f"expected {expected}, got {len(given)}; {remedy}")
    return given[0]


def _tyro(
    kind: type[Command], arguments: list[str], verb: str, default: Command | None
) -> tuple[Command, list[str]]:
    return tyro.cli(
        kind,
        args=arguments,
        prog=f"entrometer {verb}",
        default=tyro.MISSING_NONPROP if default is None else default,
        config=(tyro.conf.EnumChoicesFromValues,),
        return_unknown_args=True,
    )


def _flag_names(kind: type, verb: str) -> list[str]:
    text = io.StringIO()
    try:
        with redirect_stdout(text):
            _tyro(kind, ["--help"], verb, None)
    except SystemExit:
        pass
    return sorted(set(re.findall(r"--[a-z][\w.-]*", text.getvalue())))


def _one_line(box: str) -> str:
    """Return what tyro's error box says above its first rule, without its borders."""
    lines = []
    for line in box.splitlines()[1:]:
        text = _BORDERS.sub("", line).strip()
        if not text:
            break
        lines.append(text)
    return " ".join(lines).removeprefix("Error parsing ")
