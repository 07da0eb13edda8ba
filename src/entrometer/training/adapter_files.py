"""An adapter's directory, so that it is small and means the same on any machine."""

import json
from pathlib import Path

from entrometer.policy.adapter import base_fields
from entrometer.runs import atomic_write

_NOT_NEEDED = (
    # PEFT's form of a model card, which nobody filled in.
    "README.md",
    # The base's tokenizer.
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)


def lean_on_base(
    directory: Path, base: str, *, destination: Path | None = None
) -> None:
    """Let the adapter of a directory name its base, and leave what the base has to it.

    PEFT writes the path that the base was loaded from, which is another on the next
    machine; a name such as "smollm2" is found on both. The path of a base is stored as
    seen from the adapter. The tokenizer, which may be larger than the adapter, is the
    base's. A directory with a whole model stays as it is.

    Args:
        directory: What was saved.
        base: Name or path of the base.
        destination: Where the directory will be published; by default it stays.
    """
    path = directory / "adapter_config.json"
    if not path.is_file():
        return
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= base_fields(base, destination or directory)
    if isinstance(config.get("target_modules"), list):
        # A set in PEFT, in another order in every process.
        config["target_modules"].sort()
    with atomic_write(path) as file:
        file.write(json.dumps(config, indent=2, sort_keys=True).encode())
    for name in _NOT_NEEDED:
        (directory / name).unlink(missing_ok=True)
