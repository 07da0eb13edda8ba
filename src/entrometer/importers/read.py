"""Which framework saved a directory."""

from pathlib import Path

from entrometer.importers.deepspeed import optimizer_files, read_deepspeed
from entrometer.importers.foreign import Foreign
from entrometer.importers.verl import read_verl, world_size
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    find_directory,
    local_directory,
)


def read_foreign(path: Path | str, *, base: str | None = None) -> Foreign:
    """Read a checkpoint of verl, of OpenRLHF, or of DeepSpeed as others use it.

    Args:
        path: verl's `global_step_N` or its `actor`; OpenRLHF's `_actor`, of which the
            latest step is taken; DeepSpeed's `global_stepN`.
        base: The model that was trained, where the checkpoint does not hold its
            settings: DeepSpeed's does not.
    """
    path = local_directory(Path(path).expanduser())
    for place in (path, path / "actor", _latest(path)):
        if not place.is_dir():
            continue
        if world_size(place) is not None:
            return read_verl(place)
        if optimizer_files(place):
            if base is None:
                raise SourceNotFound(
                    f"{place}: DeepSpeed does not save the model's settings. Name the "
                    "model that was trained with --base."
                )
            return read_deepspeed(place, find_directory(base))
    raise UnreadableSource(
        f"{path}: expected files of verl (`global_step_N/actor/"
        "optim_world_size_W_rank_R.pt`) or of DeepSpeed (`global_stepN/"
        "zero_pp_rank_R_mp_rank_00_optim_states.pt`), got none of them. Name the "
        "directory of one step, saved with its optimizer."
    )


def _latest(path: Path) -> Path:
    """The step that DeepSpeed names as its latest: a name, not a way out of here."""
    try:
        name = Path((path / "latest").read_text(encoding="utf-8").strip()).name
    except (OSError, UnicodeDecodeError):
        return path
    return path if name == ".." else path / name
