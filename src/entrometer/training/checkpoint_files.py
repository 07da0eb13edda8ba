"""Files of a checkpoint, rewritten so that it is small and portable."""

import json
from pathlib import Path

import torch

from entrometer.policy.adapter import base_fields
from entrometer.runs import atomic_write

# The tokenizer, which may be larger than the adapter, and PEFT's empty model card.
_FILES_OF_THE_BASE = (
    *("README.md", "added_tokens.json", "chat_template.jinja", "merges.txt"),
    *("special_tokens_map.json", "tokenizer.json", "tokenizer.model"),
    *("tokenizer_config.json", "vocab.json", "vocab.txt"),
)


def refer_to_base(
    directory: Path, base: str, *, destination: Path | None = None
) -> None:
    """Make a saved adapter name its base, and delete what the base already has.

    A base given by its path is stored relative to the adapter, in the `destination`
    that its directory will be moved to. A complete model is left as it is.
    """
    path = directory / "adapter_config.json"
    if not path.is_file():
        return
    config = json.loads(path.read_text(encoding="utf-8"))
    # PEFT stores the path that the base was loaded from, which differs on the next
    # machine; a name such as "smollm2" works on both.
    config |= base_fields(base, destination or directory)
    if isinstance(config.get("target_modules"), list):
        # PEFT keeps a set, whose order differs in every process: sort it, so that equal
        # runs have equal bytes.
        config["target_modules"].sort()
    with atomic_write(path) as file:
        file.write(json.dumps(config, indent=2, sort_keys=True).encode())
    for name in _FILES_OF_THE_BASE:
        (directory / name).unlink(missing_ok=True)


def write_numbered_optimizer(directory: Path) -> None:
    """Write `optimizer.pt` next to the `optimizer.bin` of a checkpoint, if it has one.

    Accelerate saves FSDP's optimizer state by parameter name, in `optimizer.bin`, and
    resumes from that. Every other trainer, and `load_checkpoint`, reads `optimizer.pt`
    with parameters by number, in the same order.
    """
    path = directory / "optimizer.bin"
    if not path.is_file():
        return
    named = torch.load(path, map_location="cpu", weights_only=True)
    names = [name for group in named["param_groups"] for name in group["params"]]
    number = {name: i for i, name in enumerate(names)}
    groups = [
        group
        | {"params": [number[name] for name in group["params"]]}
        # After a resume torch has made a list of the tuple.
        | {"betas": tuple(group["betas"])}
        for group in named["param_groups"]
    ]
    state = {number[name]: moments for name, moments in named["state"].items()}
    torch.save({"state": state, "param_groups": groups}, directory / "optimizer.pt")
