"""Models and adapters on disk, to be loaded or damaged."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from peft import LoraConfig, PeftConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from entrometer.policy.loading import load_policy


def save_adapter(base: Path, directory: Path, config: PeftConfig | None = None) -> Path:
    policy = load_policy(base)
    config = config or LoraConfig(
        r=3, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft warns of tied embeddings, and tells what it saves.
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = get_peft_model(policy.model, config)
        model.save_pretrained(str(directory))
    return directory


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})
