"""A verb that carries out an experiment on checkpoints: what all of them share."""

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrometer.api.experiment import Experiment
from entrometer.api.output import print_json
from entrometer.cli.outlook import print_outlook
from entrometer.cli.settings import Asked, resolve, results_directory
from entrometer.errors import InvalidValue
from entrometer.runs import verified

if TYPE_CHECKING:
    from entrometer.engine import Engine


def carry_out(
    experiment: Experiment[Any], kind: type[Asked], arguments: Sequence[str]
) -> int:
    """Do what the arguments ask of an experiment."""
    command, config = resolve(experiment.verb, kind, experiment.config, arguments)
    if command.print_config:
        print_json(config, indent=1)
        return 0
    directory = results_directory(experiment.verb, command, config)
    store = command.store or directory / "passes"
    if command.dry_run:
        began = time.perf_counter()
        functions = experiment.functions()
        start = time.perf_counter() - began
        outlook = functions.foresee(config, store)
        print_outlook(config, outlook, start, as_json=command.json)
        return 0
    if not command.resume:
        _require_new(directory)
    experiment.carry_out(config, directory, store, engine_of(command))
    # Here: it knows every experiment, and `--help` of one needs none of the others.
    from entrometer.api.result import Result

    result = Result(directory, experiment)
    report = result.report() if command.report else None
    if command.json:
        found = {"run": directory, "report": report, **result.summary}
        print_json(found | experiment.rows(directory))
    else:
        print(result.told(report))
    return 0


def engine_of(command: Asked) -> "Engine | None":
    """The engine that was asked for; None for this process."""
    if command.engine == "here":
        of_ray = ("address", "workers", "worker_cpus", "worker_gpus")
        given = [n for n in of_ray if getattr(command, n) != getattr(Asked, n)]
        if given:
            flag = given[0].replace("_", "-")
            raise InvalidValue(
                f"expected --{flag} with --engine ray, got --engine here; add "
                "--engine ray"
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


def _require_new(directory: Path) -> None:
    about = verified(directory, names=())
    if about is not None and about.get("finished", True):
        got = "a finished run"
    elif any((directory / "passes").glob("*")):
        got = "an attempt that was stopped before its end"
    else:
        # Settings alone are what an attempt leaves that was stopped at once.
        return
    raise InvalidValue(
        f"{directory} holds {got} already; go on with it by --resume, or choose "
        "another directory with --run"
    )
