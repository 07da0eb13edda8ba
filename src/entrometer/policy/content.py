"""Names of policies, made from what they hold."""

from pathlib import Path

from entrometer.policy.sources import local_directory, require_plain_files
from entrometer.policy.weights import read_shapes, weight_files
from entrometer.runs.content import content_key, file_sha256

_ADAPTER = "adapter_config.json"

# Files that decide, besides the weights, what a policy does with a text.
_SETTINGS = (
    _ADAPTER,
    "added_tokens.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


def weights_key(checkpoint: Path | str, base: str | Path | None) -> str:
    """Name of a policy: a hash of the files that it is loaded from, and of its base.

    Of the base only the name is hashed: its content is expected to stay as it is.
    """
    directory = local_directory(Path(checkpoint).expanduser())
    require_plain_files(directory)
    adapted = (directory / _ADAPTER).is_file()
    files = weight_files(directory, "adapter_model" if adapted else "model")
    # Before they are hashed, which takes as long as their size pretends.
    read_shapes(files)
    files += [directory / name for name in _SETTINGS if (directory / name).is_file()]
    digests = {path.name: file_sha256(path) for path in files}
    return content_key({"base": None if base is None else str(base), "files": digests})
