"""Weights of a model directory by name and shape, checked before anything is built."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    one_line,
    read_json,
    require_plain_files,
)

Shapes = Mapping[str, Sequence[int]]  #: Shape of each tensor by name.

_SAVE_AGAIN = "Save the model again with `save_pretrained`."

# A path could lead out of the directory, to weights that no content key covers.
_SHARD = re.compile(r"\w[\w.-]{0,200}\.safetensors")

# Settings from which configs and models make lists of that length. The largest models
# have some hundreds; the meta device makes widths free, but not lengths.
_COUNT = re.compile(r"layer|block|depth|expert|label|head", re.IGNORECASE)
_MAX_COUNT = 100_000

# Parameters that a config may describe beyond those of the files.
_MAX_MISSING = 2**25

# Buffers are computed, not stored: a causal mask of old architectures, rotary angles.
_BUFFER_BYTES = 2**28


def weight_files(directory: Path, stem: str) -> list[Path]:
    """Return the safetensors files of weights `stem`: one, or an index's shards."""
    # One file first, then the shards of an index: the order of transformers.
    single = directory / f"{stem}.safetensors"
    index = directory / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise absent_weights(single)
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise UnreadableSource(
            f"{index}: expected a file name for each weight in `weight_map`, got "
            f"{type(shards).__name__}. {_SAVE_AGAIN}"
        )
    for shard in shards.values():
        if not isinstance(shard, str) or not _SHARD.fullmatch(shard):
            raise UnreadableSource(
                f"{index}: expected plain names of safetensors files, got {shard!r}. "
                f"{_SAVE_AGAIN}"
            )
    files = [directory / shard for shard in sorted(set(shards.values()))]
    for file in files:
        if not file.is_file():
            raise SourceNotFound(
                f"{file}: no such file, but {index.name} lists it. Copy it again."
            )
    return files


def read_shapes(files: Sequence[Path]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor, from the headers of the files alone."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            # Opening compares the header with the file's length, so a download that
            # was cut off fails here.
            with safe_open(file, framework="pt") as weights:
                names = list(weights.keys())
                in_file = {n: tuple(weights.get_slice(n).get_shape()) for n in names}
        except (SafetensorError, OSError) as error:
            raise UnreadableSource(
                f"{file}: not whole safetensors ({one_line(error)}). Copy the file "
                "again, or use an earlier checkpoint."
            ) from error
        if twice := shapes.keys() & in_file.keys():
            raise UnreadableSource(
                f"{file}: expected each weight in one file, got {min(twice)} in two. "
                f"{_SAVE_AGAIN}"
            )
        shapes |= in_file
    return shapes


def absent_weights(file: Path) -> SourceNotFound | UnreadableSource:
    """Return the error for weights that are missing, or stored only as a pickle."""
    ends = ("bin", "pt", "pth")
    pickled = sorted(p.name for e in ends for p in file.parent.glob(f"*model*.{e}"))
    if pickled:
        return UnreadableSource(
            f"{file.parent}: the only weights are in {pickled[0]}, a pickle, which can "
            "run code when it is read. Load it once where you trust it and write "
            "`model.save_pretrained(directory)`: that saves safetensors."
        )
    return SourceNotFound(
        f"{file}: no such file: {file.parent} has no weights. Name the directory that "
        "a model or an adapter was saved to."
    )


def skeleton(directory: Path, tensors: int) -> nn.Module:
    """Return the model of a `config.json` on the meta device, without weights.

    A config with many more parameters than stored `tensors` is refused early.
    """
    require_plain_files(directory)
    path = directory / "config.json"
    _require_counts(path, read_json(path))
    automatic: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        # Checkpoints may keep several parameters in one tensor.
        with _parameter_limit(4 * tensors + 256), torch.device("meta"):
            model: nn.Module = automatic.from_config(config, trust_remote_code=False)
    except Exception as error:  # Transformers passes on whatever a config leads to.
        raise UnreadableSource(
            f"{path}: transformers cannot build its model ({one_line(error)}). "
            "Check that config.json is of a causal language model and of these weights."
        ) from error
    return model


def hollow(directory: Path, dtype: torch.dtype, attention: str) -> nn.Module:
    """Return the model of a `config.json` without weights, its buffers computed.

    Parameters are on the meta device. The config must have been checked (`skeleton`).
    """

    # Its type leaves out that a hook may return another parameter.
    def to_meta(_: nn.Module, __: str, p: Any) -> Any:
        # A tied weight comes here again and has to stay the same object.
        if p is None or p.is_meta:
            return p
        return nn.Parameter(p.to("meta"), requires_grad=p.requires_grad)

    automatic: Any = AutoModelForCausalLM
    hook = register_module_parameter_registration_hook(to_meta)
    try:
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        model: Any = automatic.from_config(
            config, dtype=dtype, attn_implementation=attention, trust_remote_code=False
        )
        if (directory / "generation_config.json").is_file():
            model.generation_config = GenerationConfig.from_pretrained(directory)
    except Exception as error:  # Transformers passes on whatever a config leads to.
        raise UnreadableSource(
            f"{directory / 'config.json'}: transformers cannot build its model "
            f"({one_line(error)}). Check that config.json is of these weights."
        ) from error
    finally:
        hook.remove()
    return cast(nn.Module, model)


def require_filled(directory: Path, model: nn.Module, shapes: Shapes) -> None:
    """Raise if a skeleton is much larger than the weights that are to fill it."""
    # Transformers allocates what a config describes before it compares the two.
    path = directory / "config.json"
    described = sum(p.numel() for p in model.parameters())
    stored = sum(map(math.prod, shapes.values()))
    # Transformers names the weights that are missing, so a few may pass here.
    if described > stored + _MAX_MISSING:
        raise UnreadableSource(
            f"{path}: expected a model of at most {stored} parameters, which the "
            f"weights have, got one of {described}. Check that config.json and the "
            "weights are of the same model."
        )
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    if buffers > _BUFFER_BYTES + 4 * stored:
        raise UnreadableSource(
            f"{path}: expected tables of masks or positions below the size of the "
            f"weights, got {buffers} bytes. Check `max_position_embeddings`."
        )


def lora_config(rank: int, alpha: float, targets: Sequence[str]) -> LoraConfig:
    """Return the settings of an adapter on all modules with these names."""
    # peft stores the value as given; alpha may be a fraction there.
    scale: Any = int(alpha) if alpha == int(alpha) else alpha
    names = sorted(targets)
    return LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=scale, target_modules=names
    )


def adapted(model: nn.Module, config: LoraConfig) -> nn.Module:
    """Return a skeleton with an adapter, also on the meta device."""
    with torch.device("meta"):
        return cast(nn.Module, get_peft_model(model, config))


def _require_counts(path: Path, config: object) -> None:
    for key, value in config.items() if isinstance(config, dict) else ():
        large = isinstance(value, int | float) and abs(value) > _MAX_COUNT
        if large and _COUNT.search(key):
            raise UnreadableSource(
                f"{path}: expected at most {_MAX_COUNT} for {key}, got {value}. Check "
                "that config.json is of this model."
            )
        _require_counts(path, value)


@contextmanager
def _parameter_limit(limit: int) -> Iterator[None]:
    count = 0

    def add(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count
        count += parameter is not None
        if count > limit:
            raise ValueError(f"more than {limit} parameters, by name")

    hook = register_module_parameter_registration_hook(add)
    try:
        yield
    finally:
        hook.remove()
