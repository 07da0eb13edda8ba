"""A LoRA adapter from a directory, put on a base model."""

from pathlib import Path

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors.torch import load_file
from torch import nn

from entrometer.policy.sources import UnreadableSource, one_line, read_json
from entrometer.policy.weights import check_weights
from entrometer.runs.locations import located, relative_source

CONFIG = "adapter_config.json"


def base_of(directory: Path) -> str | None:
    """Name of the model that the adapter was trained on, if it was recorded."""
    config = read_json(directory / CONFIG)
    base = config.get("base_model_name_or_path")
    if not base:
        return None
    # PEFT stores the commit of a hub name beside the name.
    if config.get("revision") and not Path(base).is_dir():
        return f"{base}@{config['revision']}"
    return located(base, directory)


def base_fields(base: str, directory: Path) -> dict[str, str | None]:
    """Return the fields of an adapter's config that name its base.

    A path is stored as seen from `directory`, the adapter's own, so that no machine's
    folders are in it; `base_of` finds it again.
    """
    stored = relative_source(base, directory)
    if stored != base or "@" not in base:
        return {"base_model_name_or_path": stored, "revision": None}
    name, _, revision = base.partition("@")
    return {"base_model_name_or_path": name, "revision": revision}


def put_adapter(model: nn.Module, directory: Path) -> nn.Module:
    """Return `model` with the adapter of `directory`, which alone is then trained.

    Every weight of the file must have its place in the model, and every weight of the
    adapter must be in the file.
    """
    kind = read_json(directory / CONFIG).get("peft_type")
    if kind != "LORA":
        raise UnreadableSource(
            f"{directory / CONFIG}: expected a LoRA adapter, got {kind}. Merge it "
            "into its base (`merge_and_unload`) and give the merged model."
        )
    if read_json(directory / CONFIG).get("megatron_config"):
        raise UnreadableSource(
            f"{directory / CONFIG}: expected a plain adapter, got `megatron_config`, "
            "which has peft import a module that the file names. Remove the entry if "
            "you trust the file and the layers are not Megatron's."
        )
    check_weights(directory, "adapter_model")
    weights = load_file(directory / "adapter_model.safetensors")
    try:
        config = LoraConfig.from_pretrained(str(directory))
        config.inference_mode = False
        # The model may lie elsewhere by now; peft would warn of it.
        config.base_model_name_or_path = None
        # The weights drawn here are replaced below.
        with torch.random.fork_rng(devices=[]):
            adapted: nn.Module = get_peft_model(
                model, config, autocast_adapter_dtype=False
            )
        # The default asks the hub whether the vocabulary was resized.
        with_base = any(name.endswith(".base_layer.weight") for name in weights)
        expected = set(
            get_peft_model_state_dict(adapted, save_embedding_layers=with_base)
        )
        missing, extra = expected - set(weights), set(weights) - expected
        if not (missing or extra):
            set_peft_model_state_dict(adapted, weights)
            return adapted
        reason = f"missing {_few(missing)}; extra {_few(extra)}"
    except (ValueError, TypeError, RuntimeError) as error:
        reason = one_line(error)
    raise UnreadableSource(
        f"{directory}: the adapter does not fit {type(model).__name__} "
        f"({reason}). Name the model that it was trained on as `base`."
    )


def _few(names: set[str]) -> str:
    first = sorted(names)[:2]
    return f"{len(names)} weights ({', '.join(first)}, …)" if first else "none"
