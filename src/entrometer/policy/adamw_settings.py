"""What an optimizer's file says of its AdamW: a Trainer's or another framework's."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from entrometer.policy.sources import UnreadableSource


class AdamWSettings(NamedTuple):
    """Of all parameters; only weight decay may differ between groups."""

    learning_rate: float
    betas: tuple[float, float]
    epsilon: float


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
    if group["weight_decay"] and not group.get("decoupled_weight_decay", True):
        raise not_adamw(path, "weight decay that is part of the gradient (Adam)")
    beta1, beta2 = group["betas"]
    return AdamWSettings(
        float(group["lr"]), (float(beta1), float(beta2)), float(group["eps"])
    )
