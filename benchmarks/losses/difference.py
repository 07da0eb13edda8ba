"""Gradient and step of a recorded update against what the trainer itself did."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from entrometer.calculus import adamw_update
from entrometer.experiments.update import ascent_of
from entrometer.experiments.update_batch import recorded_batch
from entrometer.policy import Checkpoint
from entrometer.runs import read_update, update_path
from entrometer.runs.updates import require_usable


def step_apart(
    out: Path, step: int, checkpoint: Checkpoint, truth: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the relative differences of gradient and step.

    `truth` has the trainer's `gradient` before clipping, its parameters `before` and
    `after`, and its learning `rate`.
    """
    path = update_path(out, step)
    update = read_update(path)
    require_usable(path, update)
    ascent = ascent_of(checkpoint.policy, recorded_batch(update))
    limit = update.settings.max_grad_norm
    assert limit is not None
    gradient = {name: -g for name, g in ascent.items()}
    made = adamw_update(
        checkpoint.policy.trained(),
        gradient,
        checkpoint.state,
        checkpoint.hyperparameters,
        max_norm=limit or None,
    )
    taken = {
        name: (truth["after"][name] - p) / truth["rate"]
        for name, p in truth["before"].items()
    }
    return apart(gradient, truth["gradient"]), apart(made.update.direction, taken)


def apart(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Return |ours - theirs| / |theirs| over all parameters."""
    names = {_plain(name): x for name, x in theirs.items()}
    assert {_plain(n) for n in ours} == names.keys(), (ours.keys(), names.keys())
    differences = [x - names[_plain(name)] for name, x in ours.items()]
    difference = sum(float(x.square().sum()) for x in differences)
    size = sum(float(x.square().sum()) for x in names.values())
    return float((difference / size) ** 0.5)


def _plain(name: str) -> str:
    name = name.replace("_fsdp_wrapped_module.", "").replace(".default", "")
    return name.removeprefix("base_model.model.")
