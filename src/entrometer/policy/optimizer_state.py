"""AdamW's state and settings from an optimizer file, by the names of parameters."""

import re
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path

# A pickle may hold lists that hold one another: their full text would never end.
from reprlib import repr as shown
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from entrometer.calculus import AdamWHyperparameters, AdamWState
from entrometer.calculus.sharded import like, mesh_of, row_range
from entrometer.calculus.vectors import LazyVector
from entrometer.policy.sources import UnreadableSource
from entrometer.policy.tensor_files import read_tensors, require_stored
from entrometer.runs.content import file_sha256

_ABSENT = (
    "It is missing where a trainer saves only the model (`save_only_model=True`) or "
    "leaves the optimizer to DeepSpeed or FSDP; `load_policy` reads the weights alone."
)
_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
_COPY_AGAIN = "Copy the file again, or use an earlier checkpoint."
_TRAINERS_FILE = "Use the file that a Trainer saved."
_EARLIER = "Use a checkpoint from before."

# Names that the Trainer of transformers exempts from weight decay.
_NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(^|\.|_)norm($|\.)")


class AdamWSettings(NamedTuple):
    """AdamW's learning rate, betas and epsilon, the same for all parameters."""

    learning_rate: float
    betas: tuple[float, float]
    epsilon: float


class OptimizerState(NamedTuple):
    """Everything in an optimizer file that decides the next step."""

    state: AdamWState
    hyperparameters: AdamWHyperparameters
    learning_rate: float
    untouched: tuple[str, ...]  #: Parameters that no step gave a gradient.


def decay_groups(model: nn.Module) -> tuple[list[str], list[str]]:
    """Return names of trained parameters with and without a Trainer's weight decay."""
    # `optimizer.pt` keeps no names: it numbers parameters through the first list and
    # then the second, each in the order of `model.named_parameters()`.
    decay: list[str] = []
    no_decay: list[str] = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            parent = model.get_submodule(name.rpartition(".")[0])
            exempt = isinstance(parent, nn.LayerNorm) or _NO_DECAY.search(name.lower())
            (no_decay if exempt else decay).append(name)
    return decay, no_decay


def read_optimizer_state(path: Path, model: nn.Module) -> OptimizerState:
    r"""Read a Trainer's `optimizer.pt` for the trained parameters of its model.

    Moments keep every bit: they have the wider of their own precision and the
    parameter's. Each tensor stays in the file until it is used, and is then checked.
    The learning rate is that of the next step, since the scheduler moves before a
    trainer saves. Where no parameter has state, no step was taken.
    """
    content = _load(path)
    names = decay_groups(model)
    groups = _check_groups(path, content, names)
    settings = common_settings(path, groups)
    moments = content["state"]
    parameters = dict(model.named_parameters())
    decay, steps, keys, untouched = {}, {}, {}, []
    for group, group_names in zip(groups, names, strict=True):
        for key, name in zip(group["params"], group_names, strict=True):
            # AdamW skips a parameter that never had a gradient, weight decay included.
            # Zero moments would be wrong for it: they would be corrected as if n steps
            # had made them.
            if moments and key not in moments:
                untouched.append(name)
                continue
            if moments:
                _check_moments(path, name, moments[key], parameters[name])
            steps[name] = step_count(path, moments[key]["step"]) if moments else 0
            decay[name], keys[name] = float(group["weight_decay"]), key
    in_order = [name for name in parameters if name in steps]

    def moment(kind: str) -> LazyVector:
        def load(name: str) -> Tensor:
            parameter = parameters[name]
            if not moments:
                return torch.zeros_like(parameter).detach()
            moment: Tensor = moments[keys[name]][kind]
            mesh = mesh_of(parameter)
            if mesh is not None:
                moment = moment[row_range(len(moment), mesh)]
            _check_values(path, name, kind, moment)
            dtype = torch.promote_types(moment.dtype, parameter.dtype)
            # A copy: the file may be deleted or written anew while moments are in use.
            held = moment.to(device=parameter.device, dtype=dtype, copy=True)
            return like(held, parameter)

        return LazyVector(in_order, load)

    return OptimizerState(
        AdamWState(
            step=one_step(path, steps.values()),
            first_moment=moment("exp_avg"),
            second_moment=moment("exp_avg_sq"),
        ),
        AdamWHyperparameters(
            betas=settings.betas,
            epsilon=settings.epsilon,
            weight_decay={name: decay[name] for name in in_order},
        ),
        settings.learning_rate,
        tuple(untouched),
    )


def read_settings(path: Path) -> AdamWSettings:
    """Return learning rate, betas and epsilon of the next step; needs no model."""
    return common_settings(path, param_groups(path, _load(path)))


def optimizer_key(path: Path) -> str:
    """Return the hash of an optimizer's file; raise unless it is torch's archive."""
    require_stored(path, absent=_ABSENT)
    return file_sha256(path)


def _load(path: Path) -> Mapping[str, Any]:
    content = read_tensors(path, absent=_ABSENT)
    state = content.get("state")
    if not isinstance(state, dict) or not all(map(_is_dict, state.values())):
        raise UnreadableSource(
            f"{path}: expected the `state_dict` of an optimizer. {_TRAINERS_FILE}"
        )
    return content


def _check_groups(
    path: Path, content: Mapping[str, Any], names: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    groups = param_groups(path, content)
    keys = [group.get("params") for group in groups]
    if not all(
        isinstance(group, list) and all(isinstance(key, int | str) for key in group)
        for group in keys
    ):
        raise UnreadableSource(
            f"{path}: expected groups with lists of parameters, got something else. "
            f"{_TRAINERS_FILE}"
        )
    listed = [key for group in keys for key in group or ()]
    if len(set(listed)) != len(listed):
        raise UnreadableSource(
            f"{path}: expected each parameter in one group, got one listed twice. "
            f"{_COPY_AGAIN}"
        )
    got, expected = [len(k or ()) for k in keys], [len(group) for group in names]
    if got != expected:
        raise UnreadableSource(
            f"{path}: expected groups of {expected} parameters, with and without "
            f"weight decay, as a Trainer makes them for this model; got {got}. Check "
            "that this model and adapter were trained, with the default optimizer."
        )
    if unknown := content["state"].keys() - set(listed):
        raise UnreadableSource(
            f"{path}: state for {len(unknown)} parameters that are in no group. "
            f"{_COPY_AGAIN}"
        )
    return groups


def _check_moments(
    path: Path, name: str, moments: Mapping[str, Any], parameter: Tensor
) -> None:
    if moments.keys() != _MOMENTS:
        raise not_adamw(path, f"state {sorted(map(str, moments))} for {name}")
    for key in ("exp_avg", "exp_avg_sq"):
        moment = moments[key]
        real = type(moment) is Tensor and moment.is_floating_point()
        if not real or (moment.layout, moment.device.type) != (torch.strided, "cpu"):
            raise not_adamw(path, f"{key} of {name} that is no tensor of real numbers")
        if moment.shape != parameter.shape:
            raise UnreadableSource(
                f"{path}: {key} of {name}: expected shape {tuple(parameter.shape)}, "
                f"got {tuple(moment.shape)}. The file belongs to another model; use "
                "the one saved with these weights."
            )


def _check_values(path: Path, name: str, kind: str, moment: Tensor) -> None:
    if not moment.isfinite().all() or (kind == "exp_avg_sq" and (moment < 0).any()):
        raise UnreadableSource(
            f"{path}: {kind} of {name} has values that no training gives (NaN, "
            f"infinite, or a negative square). {_EARLIER}"
        )


def param_groups(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of an optimizer's `state_dict`, each a dict."""
    groups = content.get("param_groups")
    if not isinstance(groups, list) or not all(map(_is_dict, groups)):
        raise UnreadableSource(
            f"{path}: expected a list of parameter groups, got "
            f"{type(groups).__name__}. {_TRAINERS_FILE}"
        )
    return groups


def common_settings(path: Path, groups: Sequence[Mapping[str, Any]]) -> AdamWSettings:
    """Return the AdamW settings that all groups with parameters share."""
    # DeepSpeed's groups do not list their parameters, and count.
    used = [_settings(path, group) for group in groups if group.get("params", True)]
    if not used or any(settings != used[0] for settings in used):
        raise UnreadableSource(
            f"{path}: expected one learning rate, betas and epsilon for all "
            f"parameters, got {used}. Only weight decay may differ between groups."
        )
    return used[0]


def step_count(path: Path, value: object) -> int:
    """Return a stored number of steps as an integer; raise unless it is whole."""
    value = _item(value)
    if not isinstance(value, int | float) or not 0 <= value < 2**53 or value % 1:
        raise UnreadableSource(
            f"{path}: expected a whole number of steps, got {shown(value)}. {_EARLIER}"
        )
    return int(value)


def one_step(path: Path, steps: Collection[int]) -> int:
    """Return the number of steps behind the moments; raise if parameters disagree."""
    if len(set(steps)) != 1:
        raise UnreadableSource(
            f"{path}: expected one number of steps for all parameters, got "
            f"{sorted(set(steps))}. Use a checkpoint of a run in which every "
            "trained parameter had a gradient in every step."
        )
    return next(iter(steps))


def not_adamw(path: Path, got: str) -> UnreadableSource:
    """Return the error for any optimizer but AdamW."""
    return UnreadableSource(
        f"{path}: expected torch's AdamW with step, exp_avg and exp_avg_sq; got {got}. "
        "Train with it (`optim='adamw_torch'` of a Trainer) or with a fused one that "
        "does the same, or load the weights alone with `load_policy`."
    )


def _settings(path: Path, group: Mapping[str, Any]) -> AdamWSettings:
    # Torch's AdamW has `amsgrad`, fused ones `bias_correction`; RAdam has neither.
    kind = "bias_correction" if "bias_correction" in group else "amsgrad"
    if absent := {"lr", "betas", "eps", "weight_decay", kind} - group.keys():
        raise not_adamw(path, f"no {', '.join(sorted(absent))}")
    if group.get("amsgrad") or group.get("maximize"):
        raise not_adamw(path, "amsgrad or maximize")
    if not group.get("bias_correction", True):
        raise not_adamw(path, "moments that are not corrected for their start")
    # Adam without weight decay is AdamW; with it, the decay goes through the moments.
    decay = _number(path, group, "weight_decay")
    if decay and not group.get("decoupled_weight_decay", True):
        raise not_adamw(path, "weight decay that is part of the gradient (Adam)")
    betas = group["betas"]
    if not isinstance(betas, list | tuple) or len(betas) != 2:
        raise not_adamw(path, f"betas {shown(betas)}")
    beta1, beta2 = (_number(path, {"betas": b}, "betas", below=1.0) for b in betas)
    lr, epsilon = (_number(path, group, name) for name in ("lr", "eps"))
    return AdamWSettings(lr, (beta1, beta2), epsilon)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _item(value: Any) -> Any:
    # Torch keeps step counts, and the learning rate of captured steps, in tensors.
    scalar = isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta
    return value.item() if scalar else value


def _number(
    path: Path, group: Mapping[str, Any], name: str, *, below: float = float("inf")
) -> float:
    value = _item(group[name])
    if not isinstance(value, int | float) or not 0 <= value < below:
        raise UnreadableSource(
            f"{path}: expected a number from 0 for {name}"
            f"{f' below {below:g}' if isfinite(below) else ''}, got {shown(value)}. "
            f"{_EARLIER}"
        )
    return float(value)
