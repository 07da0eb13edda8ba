"""The parameters of a model by name and shape, without any weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from entrometer.policy.sources import UnreadableSource, one_line


def skeleton(directory: Path) -> nn.Module:
    """The model of a `config.json`, on the meta device."""
    automatic: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        with torch.device("meta"):
            model: nn.Module = automatic.from_config(config, trust_remote_code=False)
    except (ValueError, KeyError, TypeError, RuntimeError, OSError) as error:
        raise UnreadableSource(
            f"{directory}: transformers cannot build its model ({one_line(error)}). "
            "Check that config.json is of a causal language model."
        ) from error
    return model


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
