"""Which framework saved a directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entrometer.errors import EntrometerError
from entrometer.importers.deepspeed import optimizer_files, read_deepspeed
from entrometer.importers.foreign import Foreign
from entrometer.importers.verl import read_verl, world_size
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    find_directory,
    local_directory,
    one_line,
)
from entrometer.runs.untrusted import open_regular


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
            with _of_framework(place, "verl"):
                return read_verl(place)
        if optimizer_files(place):
            if base is None:
                raise SourceNotFound(
                    f"{place}: DeepSpeed does not save the model's settings. Name the "
                    "model that was trained with --base."
                )
            about = find_directory(base)
            with _of_framework(place, "DeepSpeed"):
                return read_deepspeed(place, about)
    raise UnreadableSource(
        f"{path}: expected files of verl (`global_step_N/actor/"
        "optim_world_size_W_rank_R.pt`) or of DeepSpeed (`global_stepN/"
        "zero_pp_rank_R_mp_rank_00_optim_states.pt`), got none of them. Name the "
        "directory of one step, saved with its optimizer."
    )


@contextmanager
def _of_framework(place: Path, framework: str) -> Iterator[None]:
    """Say in one line that files do not have the structure that a framework gives them.

    They are nested dicts and lists of any depth; each access may find something else.
    """
    try:
        yield
    except EntrometerError:
        raise
    except Exception as error:
        raise UnreadableSource(
            f"{place}: expected a checkpoint as {framework} saves it "
            f"({one_line(error)}). Copy the whole directory again, from all nodes."
        ) from error


def _latest(path: Path) -> Path:
    """The step that DeepSpeed names as its latest: a name, not a way out of here."""
    try:
        with open_regular(path / "latest") as file:
            name = Path(file.read(256).decode().strip()).name
    except (OSError, ValueError):
        return path
    return path if name == ".." else path / name
