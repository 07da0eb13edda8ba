"""Names of policies, made from what they hold."""

from pathlib import Path

from entrometer.policy.sources import local_directory
from entrometer.runs.content import content_key, file_sha256

# What decides, beside the weights, what a policy does with a text.
_SETTINGS = (
    "adapter_config.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def weights_key(checkpoint: Path | str, base: str | Path | None) -> str:
    """Name of a policy: a hash of its weights, its settings and the name of its base.

    What the base holds is not read: it is expected to stay as it is.
    """
    directory = local_directory(Path(checkpoint).expanduser())
    digests = {
        path.name: file_sha256(path)
        for path in sorted(directory.iterdir())
        if path.suffix == ".safetensors" or path.name in _SETTINGS
    }
    return content_key({"base": None if base is None else str(base), "files": digests})
