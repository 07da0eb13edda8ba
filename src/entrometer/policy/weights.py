"""The safetensors files of a directory, checked before anything is built from them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open

from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    one_line,
    read_json,
)

Shapes = Mapping[str, Sequence[int]]
"""Shape of each tensor by name."""

# A path could lead out of the directory, to weights that no content key covers.
_SHARD = re.compile(r"\w[\w.-]{0,200}\.safetensors")


def weight_files(directory: Path, stem: str) -> list[Path]:
    """Return the files that weights named `stem` are loaded from.

    One file, or else the shards that an index lists: the order of transformers.
    """
    single = directory / f"{stem}.safetensors"
    index = directory / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise absent_weights(single)
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise UnreadableSource(
            f"{index}: expected a file name for each weight in `weight_map`, got "
            f"{type(shards).__name__}. Save the model again with `save_pretrained`."
        )
    for shard in shards.values():
        if not isinstance(shard, str) or not _SHARD.fullmatch(shard):
            raise UnreadableSource(
                f"{index}: expected plain names of safetensors files, got {shard!r}. "
                "Save the model again with `save_pretrained`."
            )
    files = [directory / shard for shard in sorted(set(shards.values()))]
    for file in files:
        if not file.is_file():
            raise SourceNotFound(
                f"{file}: no such file, but {index.name} lists it. Copy or download "
                f"{directory} again."
            )
    return files


def read_shapes(files: Sequence[Path]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor, from the headers of the files alone.

    Opening a file compares its header with its length, so a download that was cut off
    is found here.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as weights:
                names = list(weights.keys())
                own = {n: tuple(weights.get_slice(n).get_shape()) for n in names}
        except (SafetensorError, OSError) as error:
            raise UnreadableSource(
                f"{file}: not whole safetensors ({one_line(error)}). Copy or "
                "download the file again, or use an earlier checkpoint."
            ) from error
        if twice := shapes.keys() & own.keys():
            raise UnreadableSource(
                f"{file}: expected each weight in one file, got {min(twice)} in two. "
                "Save the model again with `save_pretrained`."
            )
        shapes |= own
    return shapes


def absent_weights(file: Path) -> SourceNotFound | UnreadableSource:
    """The error for weights that are not there, or only as a pickle."""
    pickled = sorted(
        p.name
        for end in ("bin", "pt", "pth")
        for p in file.parent.glob(f"*model*.{end}")
    )
    if pickled:
        return UnreadableSource(
            f"{file.parent}: the only weights are in {pickled[0]}, a pickle, which can "
            "run code when it is read. Load it once where you trust it and write "
            "`model.save_pretrained(directory)`: that saves safetensors."
        )
    return SourceNotFound(
        f"{file}: no such file: {file.parent} has no weights. Name the directory that "
        "a model or an adapter was saved to."
    )
