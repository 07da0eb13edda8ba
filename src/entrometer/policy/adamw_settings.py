"""What an optimizer's file says of its AdamW: a Trainer's or another framework's."""

from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path

# A pickle may hold lists that hold one another: their full text would never end.
from reprlib import repr as shown
from typing import Any, NamedTuple

from torch import Tensor

from entrometer.policy.sources import UnreadableSource


class AdamWSettings(NamedTuple):
    """Of all parameters; only weight decay may differ between groups."""

    learning_rate: float
    betas: tuple[float, float]
    epsilon: float


def param_groups(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of an optimizer's `state_dict`, each a dict."""
    groups = content.get("param_groups")
    if not isinstance(groups, list) or not all(isinstance(g, dict) for g in groups):
        raise UnreadableSource(
            f"{path}: expected a list of parameter groups, got "
            f"{type(groups).__name__}. Use the file that a Trainer saved."
        )
    return groups


def common_settings(path: Path, groups: Sequence[Mapping[str, Any]]) -> AdamWSettings:
    """Read the settings of all groups that hold a parameter, if they are AdamW's.

    A group that does not list its parameters counts: DeepSpeed's do not.
    """
    found = [_settings(path, group) for group in groups if group.get("params", True)]
    if not found or any(settings != found[0] for settings in found):
        raise UnreadableSource(
            f"{path}: expected one learning rate, betas and epsilon for all "
            f"parameters, got {found}. Only weight decay may differ between groups."
        )
    return found[0]


def step_count(path: Path, value: object) -> int:
    """Return a number of steps, which torch keeps as a float."""
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta:
        value = value.item()
    if not isinstance(value, int | float) or not 0 <= value < 2**53 or value % 1:
        raise UnreadableSource(
            f"{path}: expected a whole number of steps, got {shown(value)}. Use a "
            "checkpoint from before."
        )
    return int(value)


def one_step(path: Path, steps: Collection[int]) -> int:
    """The number of steps behind the moments, if all parameters agree."""
    if len(set(steps)) != 1:
        raise UnreadableSource(
            f"{path}: expected one number of steps for all parameters, got "
            f"{sorted(set(steps))}. Use a checkpoint that is of one step, and in which "
            "every trained parameter had a gradient in every step."
        )
    return next(iter(steps))


def not_adamw(path: Path, got: str) -> UnreadableSource:
    """What is told of any other optimizer."""
    return UnreadableSource(
        f"{path}: expected torch's AdamW with step, exp_avg and exp_avg_sq; got {got}. "
        "Train with it (`optim='adamw_torch'` of a Trainer) or with a fused one that "
        "does the same, or load the weights alone with `load_policy`."
    )


def _settings(path: Path, group: Mapping[str, Any]) -> AdamWSettings:
    # Torch's has amsgrad, a fused one that corrects; RAdam has neither.
    kind = "bias_correction" if "bias_correction" in group else "amsgrad"
    if absent := {"lr", "betas", "eps", "weight_decay", kind} - group.keys():
        raise not_adamw(path, f"no {', '.join(sorted(absent))}")
    if group.get("amsgrad") or group.get("maximize"):
        raise not_adamw(path, "amsgrad or maximize")
    if not group.get("bias_correction", True):
        raise not_adamw(path, "moments that are not corrected for their start")
    # Adam without decay is AdamW; with it, the decay goes through the moments.
    decay = _number(path, group, "weight_decay")
    if decay and not group.get("decoupled_weight_decay", True):
        raise not_adamw(path, "weight decay that is part of the gradient (Adam)")
    betas = group["betas"]
    if not isinstance(betas, list | tuple) or len(betas) != 2:
        raise not_adamw(path, f"betas {shown(betas)}")
    beta1, beta2 = (_number(path, {"betas": b}, "betas", below=1.0) for b in betas)
    return AdamWSettings(
        _number(path, group, "lr"), (beta1, beta2), _number(path, group, "eps")
    )


def _number(
    path: Path, group: Mapping[str, Any], name: str, *, below: float = float("inf")
) -> float:
    value = group[name]
    # A learning rate is a tensor where steps are captured for a GPU.
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta:
        value = value.item()
    if not isinstance(value, int | float) or not 0 <= value < below:
        raise UnreadableSource(
            f"{path}: expected a number from 0 for {name}"
            f"{f' below {below:g}' if isfinite(below) else ''}, got {shown(value)}. "
            "Use a checkpoint from before."
        )
    return float(value)
