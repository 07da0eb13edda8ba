"""Detect which framework saved a checkpoint or a batch, and read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from entrometer.errors import EntrometerError
from entrometer.importers.checkpoint import ForeignCheckpoint
from entrometer.importers.deepspeed import optimizer_files, read_deepspeed
from entrometer.importers.prime_rl import export_files, read_prime_rl
from entrometer.importers.slime import is_slime_dump, read_slime
from entrometer.importers.trl_completions import (
    completion_files,
    refuse_trl_completions,
)
from entrometer.importers.verl import read_verl, world_size
from entrometer.policy.sources import (
    SourceNotFound,
    UnreadableSource,
    find_directory,
    local_directory,
    one_line,
)
from entrometer.runs import UpdateBatch
from entrometer.runs.untrusted import open_regular


@runtime_checkable
class ReadDump(Protocol):
    """A function that reads a dump."""

    def __call__(
        self, path: Path, *, temperature: float, max_tokens: int | None = None
    ) -> UpdateBatch:
        """Return the update batch, or raise with what the dump lacks."""
        ...


def dump_reader(path: Path) -> ReadDump | None:
    """Return what reads the tokens that a framework dumped; None if it dumped none."""
    if export_files(path):
        return read_prime_rl
    if completion_files(path):
        return refuse_trl_completions
    return read_slime if is_slime_dump(path) else None


def read_foreign(path: Path | str, *, base: str | None = None) -> ForeignCheckpoint:
    """Return a checkpoint of verl, of OpenRLHF, or of DeepSpeed in another trainer.

    `path` is verl's `global_step_N` or its `actor`, OpenRLHF's `_actor`, of which the
    latest step is read, or DeepSpeed's `global_stepN`. `base` is the model that was
    trained, if the checkpoint lacks its config, as DeepSpeed's does.
    """
    path = local_directory(Path(path).expanduser())
    for directory in (path, path / "actor", _latest(path)):
        if not directory.is_dir():
            continue
        if world_size(directory) is not None:
            with _naming_framework(directory, "verl"):
                return read_verl(directory)
        if optimizer_files(directory):
            if base is None:
                raise SourceNotFound(
                    f"{directory}: DeepSpeed does not save the model's settings. With "
                    "--base, name the model that was trained."
                )
            about = find_directory(base)
            with _naming_framework(directory, "DeepSpeed"):
                return read_deepspeed(directory, about)
    raise UnreadableSource(
        f"{path}: expected files of verl (`global_step_N/actor/"
        "optim_world_size_W_rank_R.pt`) or of DeepSpeed (`global_stepN/"
        "zero_pp_rank_R_mp_rank_00_optim_states.pt`), got none of them. Name the "
        "directory of one step, saved with its optimizer."
    )


@contextmanager
def _naming_framework(directory: Path, framework: str) -> Iterator[None]:
    # The files hold nested dicts and lists, so each access may fail in another way.
    try:
        yield
    except EntrometerError:
        raise
    except Exception as error:
        raise UnreadableSource(
            f"{directory}: expected a checkpoint as {framework} saves it "
            f"({one_line(error)}). Copy the whole directory again, from all nodes."
        ) from error


def _latest(path: Path) -> Path:
    """Return the step that DeepSpeed's file `latest` names, inside `path`."""
    try:
        with open_regular(path / "latest") as file:
            # The name alone: the file is untrusted and must not lead outside.
            name = Path(file.read(256).decode().strip()).name
    except (OSError, ValueError):
        return path
    return path if name == ".." else path / name
