"""The state of AdamW from a trainer's `optimizer.pt`, by the names of parameters."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from entrometer.calculus import AdamWHyperparameters, AdamWState
from entrometer.calculus.vectors import LazyVector
from entrometer.policy.adamw_settings import (
    AdamWSettings,
    common_settings,
    not_adamw,
    one_step,
)
from entrometer.policy.sources import SourceNotFound, UnreadableSource, one_line

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
            steps[name] = int(moments[key]["step"]) if moments else 0
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
    return common_settings(path, _load(path)["param_groups"])


def _load(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise SourceNotFound(
            f"{path}: no such file. It is missing where a trainer saves only the model "
            "(`save_only_model=True`) or leaves the optimizer to DeepSpeed or FSDP; "
            "`load_policy` reads the weights alone."
        )
    try:
        content = torch.load(
            path, map_location="cpu", weights_only=True, mmap=_can_map(path)
        )
    except Exception as error:  # torch passes on whatever its readers raise.
        raise UnreadableSource(
            f"{path}: not a whole file of tensors ({one_line(error)}). Copy it again, "
            "or use an earlier checkpoint."
        ) from error
    if not isinstance(content, dict) or not {"state", "param_groups"} <= content.keys():
        raise UnreadableSource(
            f"{path}: expected the `state_dict` of an optimizer. Use the file that a "
            "Trainer saved."
        )
    return content


def _can_map(path: Path) -> bool:
    """Whether torch can map the file: a zip archive without compression."""
    try:
        with ZipFile(path) as archive:
            return all(f.compress_type == ZIP_STORED for f in archive.infolist())
    except BadZipFile:
        return False


def _check_groups(
    path: Path, content: Mapping[str, Any], names: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Return the groups, if they are the Trainer's and have the model's parameters."""
    groups: list[dict[str, Any]] = content["param_groups"]
    got = [len(group["params"]) for group in groups]
    expected = [len(group) for group in names]
    if got != expected:
        raise UnreadableSource(
            f"{path}: expected groups of {expected} parameters, with and without "
            f"weight decay, as a Trainer makes them for this model; got {got}. Check "
            "that the same model and adapter were trained, whole, by its default "
            "optimizer."
        )
    unknown = content["state"].keys() - {k for group in groups for k in group["params"]}
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
        raise not_adamw(path, f"state {sorted(moments)} for {name}")
    for key in ("exp_avg", "exp_avg_sq"):
        moment = moments[key]
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
    return moment.to(device=parameter.device, dtype=dtype)
