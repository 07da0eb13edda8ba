"""Run a finished run again from its saved settings, and compare the tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import tyro

from entrometer.api.progress import Ticker
from entrometer.cli import torchrun
from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.experiments.experiment import experiment, experiment_names
from entrometer.experiments.settings import read_settings
from entrometer.runs import checkpoints, verified
from entrometer.runs.content import file_sha256
from entrometer.runs.finished import is_training
from entrometer.runs.parquet import read_parquet
from entrometer.runs.settings import sealed_settings
from entrometer.text import plain, print_json
from entrometer.training.config import read_config


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Run an experiment or training again; exit with 1 if a table or weight differs."""

    old: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a finished run."""

    run: Path | None = None
    """Directory of the new run; by default the old one's path with -replay appended."""

    resume: Flag = False
    """Resume a replay that was stopped."""

    json: Flag = False
    """Print one JSON object instead of text."""


@torchrun.one_voice()
def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Replay, arguments, verb="replay")
    old = command.old
    kind = _kind(old)
    if kind != "training":
        record = experiment(kind)
        config = record.config(**read_settings(record, old))
        torchrun.require_processes(config.model_shards)
        if torchrun.follows():
            return torchrun.follow()
    new = command.run or old.with_name(f"{old.resolve().name}-replay")
    if new.exists() and not command.resume:
        raise InvalidValue(
            f"{new} already exists; resume it with --resume, or choose another "
            "directory with --run"
        )
    if new.resolve() == old.resolve():
        raise InvalidValue(f"expected another directory than {old}; change --run")
    if kind == "training":
        from entrometer.training.run import train

        with Ticker() as ticker:
            train(read_config(old), new, progress=ticker.training)
        files = ("updates/*.parquet", "checkpoint-*/*.safetensors")
        difference = first_difference(old, new, files)
    else:
        from entrometer.experiments.run import run_experiment

        log = new / "progress.log"
        with Ticker(log=log) as ticker, torchrun.leading() as engine:
            progress = partial(ticker.work, kind)
            run_experiment(record, config, new, progress=progress, engine=engine)
        unstable = record.unstable or {}
        difference = first_difference(old, new, ("results/*.parquet",), unstable)
    if command.json:
        identical = difference is None
        result = {"kind": kind, "run": new, "identical": identical}
        print_json(result | {"difference": difference})
    elif difference is None:
        print(plain(f"identical: every table of the {kind} run, in {new}"))
    else:
        print(plain(f"different: {difference}"))
    return 0 if difference is None else 1


def _kind(old: Path) -> str:
    """Return the kind that a run's manifest names; raise unless the run is finished."""
    sealed_settings(old)
    about = verified(old) or {}
    if about.get("finished") is False:
        raise InvalidValue(
            f"{old}: expected a finished run, got one that was stopped before its end; "
            "finish it with --resume"
        )
    if is_training(old):
        for _, checkpoint in checkpoints(old):
            verified(checkpoint)
        return "training"
    kind = about.get("kind")
    if kind not in experiment_names():
        raise InvalidValue(
            f"{old}: expected a run whose manifest.json names a training or one of "
            f"{', '.join(experiment_names())}, got {kind!r}; name the directory that "
            "--run was given"
        )
    return str(kind)


def first_difference(
    old: Path,
    new: Path,
    patterns: tuple[str, ...],
    unstable: Mapping[str, tuple[str, ...]] = {},
) -> str | None:
    """Return the first place at which the files of two directories differ, or None.

    Parquet files are compared row by row, with NaN equal to NaN; others by their bytes.

    Args:
        old: The one directory.
        new: The other.
        patterns: Files to compare.
        unstable: Columns to leave out, by the stem of the file.
    """
    names = [sorted(_names(run, patterns)) for run in (old, new)]
    for name in sorted({*names[0], *names[1]}):
        for run, its_names in zip((old, new), names, strict=True):
            if name not in its_names:
                return f"{name}: {run} has no such file"
        without = unstable.get(Path(name).stem, ())
        difference = _compare(name, old / name, new / name, without)
        if difference is not None:
            return difference
    return None


def _names(run: Path, patterns: tuple[str, ...]) -> list[str]:
    return [p.relative_to(run).as_posix() for x in patterns for p in run.glob(x)]


def _compare(name: str, old: Path, new: Path, without: tuple[str, ...]) -> str | None:
    if old.suffix != ".parquet":
        same = file_sha256(old) == file_sha256(new)
        return None if same else f"{name}: the bytes differ"
    was, now = _rows(old), _rows(new)
    for number, (before, after) in enumerate(zip(was, now, strict=False)):
        for column in {**before, **after}:
            values = before.get(column), after.get(column)
            if column not in without and not _equal(*values):
                place = f"{name}, row {number}, {column}"
                return f"{place}: was {_short(values[0])}, is {_short(values[1])}"
    if len(was) != len(now):
        return f"{name}: had {len(was)} rows, has {len(now)}"
    return None


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_parquet(
        path,
        pa.Table.to_pylist,
        expected="a table",
        remedy="run it again",
        as_objects=True,
    )
    return rows


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b or (a != a and b != b))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
