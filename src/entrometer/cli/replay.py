"""Run a finished run again from its saved settings, and compare the tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from entrometer.api.experiment import Experiment
from entrometer.api.experiments.compare import COMPARE
from entrometer.api.experiments.influence import INFLUENCE
from entrometer.api.experiments.kernel import KERNEL
from entrometer.api.experiments.measure import MEASURE
from entrometer.api.output import plain, print_json
from entrometer.api.progress import Ticker
from entrometer.api.settings import read_settings
from entrometer.cli.difference import first_difference
from entrometer.cli.parse import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.runs import DamagedFile, checkpoints, verified
from entrometer.runs.rows import table_classes
from entrometer.runs.settings import sealed_settings
from entrometer.runs.tables.kernel import KernelTables
from entrometer.runs.untrusted import read_json
from entrometer.training.config import read_config


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Run an experiment, a training or an evaluation again; exit 1 if it differs."""

    old: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Directory of a finished run; of an evaluation, RUN/evaluation/KEY."""

    run: Path | None = None
    """Directory of the new one; by default beside the old one, with -replay."""

    resume: Flag = False
    """Go on with a replay that was stopped."""

    json: Flag = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True)
class Kind:
    """A kind of run that can be repeated."""

    name: str
    again: Callable[[Path, Path], Path]
    """From the old directory and the new one to where the new tables are."""

    tables: tuple[str, ...]
    """Patterns of the files that must come out the same."""


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    command = parse(Replay, arguments, verb="replay")
    old = command.old
    _require_whole(old)
    kind = _kind(old)
    new = command.run or old.with_name(f"{old.resolve().name}-replay")
    if new.exists() and not command.resume:
        raise InvalidValue(
            f"{new} is there already; go on with it by --resume, or choose another "
            "directory with --run"
        )
    if new.resolve() == old.resolve():
        raise InvalidValue(f"expected another directory than {old}; change --run")
    made = kind.again(old, new)
    found = first_difference(old, made, kind.tables)
    if command.json:
        said = {"kind": kind.name, "run": made, "identical": found is None}
        print_json(said | {"difference": found})
    elif found is None:
        print(plain(f"identical: every table of the {kind.name}, in {made}"))
    else:
        print(plain(f"different: {found}"))
    return 0 if found is None else 1


def _kind(old: Path) -> Kind:
    """What a directory is, by the settings in it."""
    try:
        settings = read_json(old / "config.json")
    except (OSError, DamagedFile):
        settings = {}
    for key, kind in KINDS.items():
        if key not in settings:
            continue
        if not any(any(old.glob(table)) for table in kind.tables):
            raise InvalidValue(
                f"{old}: expected a finished {kind.name}, got one without tables; "
                "finish it with --resume"
            )
        return kind
    raise InvalidValue(
        f"{old}: expected a run with its config.json, got none of an experiment, a "
        "training or an evaluation; name the directory that --run was given"
    )


def _require_whole(old: Path) -> None:
    """Refuse to compare with tables that are not what was written."""
    sealed_settings(old)
    if (verified(old) or {}).get("finished") is False:
        raise InvalidValue(
            f"{old}: expected a finished run, got one that was stopped before its end; "
            "finish it with --resume"
        )
    for _, checkpoint in checkpoints(old):
        verified(checkpoint)


def _again(experiment: Experiment[Any]) -> Callable[[Path, Path], Path]:
    def again(old: Path, new: Path) -> Path:
        settings = read_settings(experiment.verb, experiment.config, old)
        experiment.carry_out(experiment.config(**settings), new)
        return new

    return again


def _train(old: Path, new: Path) -> Path:
    from entrometer.training.run import train

    with Ticker() as ticker:
        train(read_config(old), new, progress=ticker.training)
    return new


def _evaluate(old: Path, new: Path) -> Path:
    from entrometer.evaluation import EvaluationConfig, evaluate
    from entrometer.tasks import Split, task

    path = old / "config.json"
    saved = read_json(path)
    try:
        settings = saved["config"]
        settings |= {"split": Split(settings["split"]), "ks": tuple(settings["ks"])}
        config = EvaluationConfig(**settings)
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidValue(
            f"{path}: expected the settings of an evaluation ({error}); restore the "
            "file"
        ) from error
    trained = read_config(old.parent.parent)
    steps = [step for step, _ in checkpoints(old)]
    with Ticker() as ticker:
        result = evaluate(
            new,
            [(n, p) for n, p in checkpoints(old.parent.parent) if n in steps],
            task(trained.task, **trained.task_settings()),
            config,
            base=trained.policy,
            device=saved.get("device", "cpu"),
            progress=lambda done, total, note: ticker.tick("eval", done, total, note),
        )
    return result.directory


_RESULTS = ("results/*.parquet",)

KINDS = {
    "etas": Kind("measurement", _again(MEASURE), _RESULTS),
    "past": Kind("influence", _again(INFLUENCE), _RESULTS),
    "kernel_prompts": Kind(
        "kernel",
        _again(KERNEL),
        # The seconds that it took are in the table `whole`.
        tuple(
            f"results/{name}.parquet"
            for name in table_classes(KernelTables)
            if name != "whole"
        ),
    ),
    "minibatches": Kind("comparison", _again(COMPARE), _RESULTS),
    "imitation": Kind(
        "training", _train, ("updates/*.parquet", "checkpoint-*/*.safetensors")
    ),
    "config": Kind("evaluation", _evaluate, ("table.parquet",)),
}
"""By a setting that its config.json has and those of the others have not."""
