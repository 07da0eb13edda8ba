"""The parameters of a model by name and shape, without any weights."""

import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoConfig, AutoModelForCausalLM

from entrometer.policy.sources import (
    UnreadableSource,
    one_line,
    read_json,
    require_plain_files,
)
from entrometer.policy.weights import Shapes

# Settings from which configs and models make lists of that length. The largest models
# have some hundreds; the meta device makes widths free, but not lengths.
_COUNT = re.compile(r"layer|block|depth|expert|label|head", re.IGNORECASE)
_MOST = 100_000

_MISSING = 2**25

# Buffers are computed, not stored: a causal mask of old architectures, rotary angles.
_BUFFER_BYTES = 2**28


def skeleton(directory: Path, tensors: int) -> nn.Module:
    """Return the model of a `config.json` on the meta device.

    Args:
        directory: Where the config is.
        tensors: How many the parameters are to come from. A config that describes many
            more is refused before it takes time.
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
        with _at_most(4 * tensors + 256), torch.device("meta"):
            model: nn.Module = automatic.from_config(config, trust_remote_code=False)
    except Exception as error:  # Transformers passes on whatever a config leads to.
        raise UnreadableSource(
            f"{path}: transformers cannot build its model ({one_line(error)}). "
            "Check that config.json is of a causal language model and of these weights."
        ) from error
    return model


def require_filled(directory: Path, model: nn.Module, shapes: Shapes) -> None:
    """Raise if a skeleton is much larger than the weights that it is to be filled with.

    Transformers allocates what a config describes before it compares the two.
    """
    path = directory / "config.json"
    described = sum(p.numel() for p in model.parameters())
    held = sum(map(math.prod, shapes.values()))
    # Which weights are missing is for transformers to say, unless that costs memory.
    if described > held + _MISSING:
        raise UnreadableSource(
            f"{path}: expected a model of at most {held} parameters, which the weights "
            f"have, got one of {described}. Check that config.json and the weights are "
            "of the same model."
        )
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    if buffers > _BUFFER_BYTES + 4 * held:
        raise UnreadableSource(
            f"{path}: expected tables of masks or positions below the size of the "
            f"weights, got {buffers} bytes. Check `max_position_embeddings` and the "
            "like."
        )


class _Kept(logging.Handler):
    """Collects records instead of writing them."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def said_if_accepted() -> Iterator[None]:
    """Hold back what transformers logs until it is clear that nothing is refused.

    A refusal is one line, and says what the warnings before it would say.
    """
    logger = logging.getLogger("transformers")
    held: list[logging.LogRecord] = []
    handler = _Kept(held)
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before
    # Each once: a model is built on the meta device first.
    for record in {record.getMessage(): record for record in held}.values():
        logger.handle(record)


def _require_counts(path: Path, config: object) -> None:
    """Refuse a number of layers, heads and the like beyond any model's."""
    for key, value in config.items() if isinstance(config, dict) else ():
        number = isinstance(value, int | float)
        if number and abs(value) > _MOST and _COUNT.search(key):
            raise UnreadableSource(
                f"{path}: expected at most {_MOST} for {key}, got {value}. Check that "
                "config.json is of this model."
            )
        _require_counts(path, value)


@contextmanager
def _at_most(parameters: int) -> Iterator[None]:
    """Stop the construction of a model that has more parameters than that."""
    count = 0

    def add(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count
        count += parameter is not None
        if count > parameters:
            raise ValueError(f"more than {parameters} parameters, by name")

    hook = register_module_parameter_registration_hook(add)
    try:
        yield
    finally:
        hook.remove()


def lora_config(rank: int, alpha: float, targets: Sequence[str]) -> LoraConfig:
    """The settings of an adapter on all modules with these names."""
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        # peft keeps what it is given; alpha is a number there, whole or not.
        lora_alpha=int(alpha) if alpha == int(alpha) else alpha,  # type: ignore[arg-type]
        target_modules=sorted(targets),
    )


def adapted(model: nn.Module, config: LoraConfig) -> nn.Module:
    """The model with an adapter on it, on the meta device too."""
    with torch.device("meta"):
        put: nn.Module = get_peft_model(model, config)
    return put
