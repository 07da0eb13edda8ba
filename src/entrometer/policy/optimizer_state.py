"""The state of AdamW from a trainer's `optimizer.pt`, by the names of parameters."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from entrometer.calculus import AdamWHyperparameters, AdamWState
from entrometer.calculus.vectors import LazyVector
from entrometer.policy.adamw_settings import (
    AdamWSettings,
    common_settings,
    not_adamw,
    one_step,
    param_groups,
    step_count,
)
from entrometer.policy.sources import UnreadableSource
from entrometer.policy.tensor_files import read_tensors, require_stored
from entrometer.runs.content import file_sha256

_ABSENT = (
    "It is missing where a trainer saves only the model (`save_only_model=True`) or "
    "leaves the optimizer to DeepSpeed or FSDP; `load_policy` reads the weights alone."
)
_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}

# Names that the Trainer of transformers exempts from weight decay.
_NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(^|\.|_)norm($|\.)")


class OptimizerState(NamedTuple):
    """What an optimizer file says of the step to come."""

    state: AdamWState
    hyperparameters: AdamWHyperparameters
    learning_rate: float
    untouched: tuple[str, ...]
    """Parameters without state: none of the steps gave them a gradient."""


def decay_groups(model: nn.Module) -> tuple[list[str], list[str]]:
    """Names of trained parameters with and without weight decay, as a Trainer has them.

    `optimizer.pt` numbers parameters through the first list and then the second, each
    in the order of `model.named_parameters()`, and keeps no names.
    """
    decay: list[str] = []
    no_decay: list[str] = []
    for name, p in model.named_parameters():
        if p.requires_grad:
            parent = model.get_submodule(name.rpartition(".")[0])
            exempt = isinstance(parent, nn.LayerNorm) or _NO_DECAY.search(name.lower())
            (no_decay if exempt else decay).append(name)
    return decay, no_decay


def read_optimizer_state(path: Path, model: nn.Module) -> OptimizerState:
    r"""Read the moments, the step and the settings of AdamW for a model's parameters.

    Moments keep every bit: they have the wider of their own precision and the
    parameter's. They stay in the file until they are asked for, tensor by tensor; each
    is then checked and put on the parameter's device. The learning rate is that of the
    step to come, since the scheduler moves before a trainer saves; after the last step
    of a schedule that ends at 0 it is 0.

    A parameter without state never had a gradient, and AdamW passes it over, weight
    decay included. It is left out of the state and named in `untouched`. Zero moments
    would be wrong for it: they would be corrected as if they had $n$ steps behind them.
    Where no parameter has state, no step was taken yet, and the state is fresh.

    Args:
        path: An `optimizer.pt` as a Trainer saves it.
        model: The model that it belongs to, with the same parameters trained.
    """
    content = _load(path)
    names = decay_groups(model)
    groups = _check_groups(path, content, names)
    settings = common_settings(path, groups)
    moments = content["state"]
    parameters = dict(model.named_parameters())
    decay, steps, keys = {}, {}, {}
    untouched = []
    for group, group_names in zip(groups, names, strict=True):
        for key, name in zip(group["params"], group_names, strict=True):
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
            if not moments:
                return torch.zeros_like(parameters[name]).detach()
            _check_values(path, name, kind, moments[keys[name]][kind])
            return _placed(moments[keys[name]][kind], parameters[name])

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
    """The settings of the step to come, for which no model is needed."""
    return common_settings(path, param_groups(path, _load(path)))


def optimizer_key(path: Path) -> str:
    """Name of an optimizer's state: the hash of its file, if that is one of torch's."""
    require_stored(path, absent=_ABSENT)
    return file_sha256(path)


def _load(path: Path) -> Mapping[str, Any]:
    content = read_tensors(path, absent=_ABSENT)
    state = content.get("state")
    if not isinstance(state, dict) or not all(
        isinstance(moments, dict) for moments in state.values()
    ):
        raise UnreadableSource(
            f"{path}: expected the `state_dict` of an optimizer. Use the file that a "
            "Trainer saved."
        )
    return content


def _check_groups(
    path: Path, content: Mapping[str, Any], names: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the groups, if they are the Trainer's and have the model's parameters."""
    groups = param_groups(path, content)
    keys = [group.get("params") for group in groups]
    if not all(
        isinstance(own, list) and all(isinstance(key, int | str) for key in own)
        for own in keys
    ):
        raise UnreadableSource(
            f"{path}: expected groups with lists of parameters, got something else. "
            "Use the file that a Trainer saved."
        )
    every = [key for own in keys for key in own or ()]
    if len(set(every)) != len(every):
        raise UnreadableSource(
            f"{path}: expected each parameter in one group, got one that is listed "
            "twice. Copy the file again, or use an earlier checkpoint."
        )
    got = [len(own or ()) for own in keys]
    expected = [len(group) for group in names]
    if got != expected:
        raise UnreadableSource(
            f"{path}: expected groups of {expected} parameters, with and without "
            f"weight decay, as a Trainer makes them for this model; got {got}. Check "
            "that the same model and adapter were trained, whole, by its default "
            "optimizer."
        )
    unknown = content["state"].keys() - set(every)
    if unknown:
        raise UnreadableSource(
            f"{path}: state for {len(unknown)} parameters that are in no group. Copy "
            "the file again, or use an earlier checkpoint."
        )
    return groups


def _check_moments(
    path: Path, name: str, moments: Mapping[str, Any], parameter: Tensor
) -> None:
    if moments.keys() != _MOMENTS:
        raise not_adamw(path, f"state {sorted(map(str, moments))} for {name}")
    for key in ("exp_avg", "exp_avg_sq"):
        moment = moments[key]
        if (
            type(moment) is not Tensor
            or not moment.is_floating_point()
            or (moment.layout, moment.device.type) != (torch.strided, "cpu")
        ):
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
            "infinite, or a negative square). Use a checkpoint from before."
        )


def _placed(moment: Tensor, parameter: Tensor) -> Tensor:
    dtype = torch.promote_types(moment.dtype, parameter.dtype)
    # A copy: the file may be deleted or written anew while the moments are in use.
    return moment.to(device=parameter.device, dtype=dtype, copy=True)
