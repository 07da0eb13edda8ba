"""Checkpoints and experiments as functions: the verbs of the command line."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrometer.api.experiment import Experiment
from entrometer.api.experiments.compare import COMPARE
from entrometer.api.experiments.influence import INFLUENCE
from entrometer.api.experiments.kernel import KERNEL
from entrometer.api.experiments.measure import MEASURE
from entrometer.api.result import Result
from entrometer.api.settings import (
    as_settings,
    require_known,
    run_directory,
    trained_settings,
)
from entrometer.errors import InvalidValue, nearest_name
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
    """Load a `checkpoint-N` with its AdamW: a policy, and the step that is to come.

    Its files are first compared with its manifest, where it has one.

    Args:
        path: The directory.
        base: What an adapter sits on; by default what the training beside it says, or
            else what the adapter recorded.
        precision: `float32`, `float64` or `bfloat16`.
        device: Where it computes.
    """
    from entrometer.policy import load_checkpoint

    verified(Path(path), beside=False)
    base = base or trained_settings([str(path)]).get("policy")
    return load_checkpoint(path, base=base, precision=precision, device=device)


def measure(
    *checkpoints: str | Path,
    run: str | Path | None = None,
    store: str | Path | None = None,
    engine: "Engine | None" = None,
    **settings: Any,
) -> Result:
    """Measure what one AdamW step does to the entropy of checkpoints.

    Args:
        checkpoints: Directories `checkpoint-N`.
        run: Directory of the results; by default runs/, with the verb, the
            checkpoints' names and a hash of their content and the settings. An existing
            run is resumed, if its checkpoints are the same: finished passes are reused.
        store: Where passes are kept; by default in the run. Runs may share one.
        engine: Where passes are made; by default in this process.
        settings: Those of `MeasureConfig`, as `entrometer measure --help` lists them;
            by default those of the training beside the checkpoints.
    """
    return _carry_out(MEASURE, checkpoints, run, store, engine, settings)


def influence(
    *checkpoints: str | Path,
    run: str | Path | None = None,
    store: str | Path | None = None,
    engine: "Engine | None" = None,
    **settings: Any,
) -> Result:
    """Find the influence of every token of an update on entropy and expected reward.

    Args:
        checkpoints: Directories `checkpoint-N`.
        run: As for `measure`.
        store: As for `measure`.
        engine: As for `measure`.
        settings: Those of `InfluenceConfig`.
    """
    return _carry_out(INFLUENCE, checkpoints, run, store, engine, settings)


def kernel(
    *checkpoints: str | Path,
    run: str | Path | None = None,
    store: str | Path | None = None,
    engine: "Engine | None" = None,
    **settings: Any,
) -> Result:
    """Measure the Fisher kernel between responses: the effect of one on another.

    Args:
        checkpoints: Directories `checkpoint-N`.
        run: As for `measure`.
        store: As for `measure`.
        engine: As for `measure`.
        settings: Those of `KernelConfig`.
    """
    return _carry_out(KERNEL, checkpoints, run, store, engine, settings)


def compare(
    *checkpoints: str | Path,
    run: str | Path | None = None,
    store: str | Path | None = None,
    engine: "Engine | None" = None,
    **settings: Any,
) -> Result:
    """Compare interventions: what a step under each does to entropy and to reward.

    Args:
        checkpoints: Directories `checkpoint-N`.
        run: As for `measure`.
        store: As for `measure`.
        engine: As for `measure`.
        settings: Those of `CompareConfig`.
    """
    return _carry_out(COMPARE, checkpoints, run, store, engine, settings)


def _carry_out(
    experiment: Experiment[Any],
    checkpoints: tuple[str | Path, ...],
    run: str | Path | None,
    store: str | Path | None,
    engine: "Engine | None",
    settings: dict[str, Any],
) -> Result:
    names = [f.name for f in fields(experiment.config)]
    for name in settings:
        if name not in names:
            raise InvalidValue(
                f"no setting {name!r}.{nearest_name(name, names)} `entrometer "
                f"{experiment.verb} --help` lists the settings"
            )
    paths = tuple(str(path) for path in checkpoints)
    asked = trained_settings(paths) | {"split": experiment.config.split} | settings
    require_known(paths, asked)
    config = experiment.config(checkpoints=paths, **as_settings(asked))
    directory = run_directory(experiment.verb, config) if run is None else Path(run)
    experiment.carry_out(
        config, directory, None if store is None else Path(store), engine
    )
    return Result(directory, experiment)
