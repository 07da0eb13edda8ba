"""Names of policies, made from what they hold."""

from pathlib import Path

from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of
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
    """Name of a policy: a hash of its weights, its settings and its base.

    A base that is a directory counts with the files in it, wherever it is; a name such
    as "smollm2" or a commit on the hub stands for the same files everywhere.
    """
    directory = local_directory(Path(checkpoint).expanduser())
    if base is None and (directory / ADAPTER_CONFIG).is_file():
        recorded = base_of(directory)
        # A name is in the adapter's config, which is hashed; the same relative path
        # may lead to another model.
        base = recorded if recorded and Path(recorded).is_dir() else None
    named: str | dict[str, str] | None = None if base is None else str(base)
    if base is not None and Path(base).expanduser().is_dir():
        named = _digests(Path(base).expanduser())
    return content_key({"base": named, "files": _digests(directory)})


def _digests(directory: Path) -> dict[str, str]:
    return {
        path.name: file_sha256(path)
        for path in sorted(directory.iterdir())
        if path.suffix == ".safetensors" or path.name in _SETTINGS
    }
