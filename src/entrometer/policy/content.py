"""Names of policies, made from what they hold."""

from pathlib import Path

from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    local_directory,
    require_plain_files,
)
from entrometer.policy.weights import read_shapes, weight_files
from entrometer.runs.content import content_key, file_sha256

# Files that decide, besides the weights, what a policy does with a text.
_SETTINGS = (
    ADAPTER_CONFIG,
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

    A base that is a directory counts with the files in it, wherever it is; a name such
    as "smollm2" or a commit on the hub stands for the same files everywhere.
    """
    directory = local_directory(Path(checkpoint).expanduser())
    files = _digests(directory)
    if base is None and (directory / ADAPTER_CONFIG).is_file():
        recorded = base_of(directory)
        # A name is in the adapter's config, which is hashed; the same relative path
        # may lead to another model.
        base = recorded if recorded and Path(recorded).is_dir() else None
    named: str | dict[str, str] | None = None if base is None else str(base)
    if base is not None and Path(base).expanduser().is_dir():
        try:
            named = _digests(Path(base).expanduser())
        except (SourceNotFound, UnreadableSource) as error:
            raise type(error)(
                f"{directory}: the base of this adapter, {base}, cannot be read: "
                f"{error}"
            ) from error
    return content_key({"base": named, "files": files})


def _digests(directory: Path) -> dict[str, str]:
    """Hash the files that a model or an adapter is loaded from, by name."""
    require_plain_files(directory)
    adapted = (directory / ADAPTER_CONFIG).is_file()
    files = weight_files(directory, "adapter_model" if adapted else "model")
    # Before they are hashed, which takes as long as their size pretends.
    read_shapes(files)
    files += [directory / name for name in _SETTINGS if (directory / name).is_file()]
    return {path.name: file_sha256(path) for path in files}
