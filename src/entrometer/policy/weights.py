"""The safetensors files of a directory, proved whole before anything is built."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    one_line,
    read_json,
)


def check_weights(directory: Path, stem: str) -> None:
    """Raise unless `directory` holds whole weights named `stem` in safetensors.

    One file, or the shards that an index lists. Opening a file compares its header with
    its length, so a download that was cut off is found here.
    """
    index = directory / f"{stem}.safetensors.index.json"
    single = directory / f"{stem}.safetensors"
    if single.is_file():
        files = [single]
    elif index.is_file():
        shards = read_json(index).get("weight_map", {})
        # Only names: a path in an index could lead out of the directory.
        files = [directory / Path(shard).name for shard in sorted({*shards.values()})]
    else:
        raise _absent(single)
    for file in files:
        if not file.is_file():
            raise SourceNotFound(
                f"{file}: no such file, but {index.name} lists it. Copy or download "
                f"{directory} again."
            )
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise UnreadableSource(
                f"{file}: not whole safetensors ({one_line(error)}). Copy or "
                "download the file again, or use an earlier checkpoint."
            ) from error


def _absent(file: Path) -> SourceNotFound | UnreadableSource:
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
