"""What a framework set its AdamW to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from entrometer.policy.sources import UnreadableSource


class Settings(NamedTuple):
    """Of a group of parameters."""

    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float


def settings_of(path: Path, group: Mapping[str, Any]) -> Settings:
    """Read them, if they are AdamW's."""
    absent = {"lr", "betas", "eps", "weight_decay"} - group.keys()
    if absent or group.get("amsgrad") or group.get("maximize"):
        got = f"no {', '.join(sorted(absent))}" if absent else "amsgrad or maximize"
        raise UnreadableSource(
            f"{path}: expected an optimizer with the settings of AdamW, got {got}. "
            "Train with torch's AdamW, or a fused one that does the same."
        )
    beta1, beta2 = group["betas"]
    return Settings(
        float(group["lr"]),
        (float(beta1), float(beta2)),
        float(group["eps"]),
        float(group["weight_decay"]),
    )


def common_settings(path: Path, groups: Sequence[Mapping[str, Any]]) -> Settings:
    """Those of all groups that have parameters."""
    found = {settings_of(path, group) for group in groups if group["params"]}
    if len(found) != 1:
        raise UnreadableSource(
            f"{path}: expected the same settings for all parameters, got "
            f"{sorted(found)}."
        )
    return found.pop()
