"""Files that are whole or absent."""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from entrometer.errors import EntrometerError


class DamagedFile(EntrometerError, ValueError):
    """A file that is not what its reader wrote: cut short, altered or foreign."""


class NotWritten(EntrometerError, OSError):
    """A file that could not be written, for example because the disk is full."""


# What torch and safetensors say of a failed write, in errors that are no OSError.
_FAILED_WRITES = ("unexpected pos", "write failed", "failed writing", "os error")


@contextmanager
def naming_full_disk(directory: Path) -> Iterator[None]:
    """Raise `NotWritten`, with the file's name, if libraries cannot write to a disk.

    Args:
        directory: Where files are written, at any depth.
    """
    try:
        yield
    except EntrometerError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not any(
            words in str(error) for words in _FAILED_WRITES
        ):
            raise
        files = [p for p in directory.rglob("*") if p.is_file()]
        last = max(files, key=lambda p: p.stat().st_mtime_ns, default=directory)
        free = shutil.disk_usage(directory).free / 2**20
        why = (str(error).splitlines() or [""])[0]
        raise NotWritten(
            f"{last}: could not be written ({type(error).__name__}: {why}); the disk "
            f"has {free:.0f} MiB left. Free some space, then run the same command with "
            "--resume"
        ) from error


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path` only once it is whole and on disk.

    Whoever reads `path` meanwhile, or after a crash or a power cut at any point, finds
    the old file or the new one. On an error the old file stays; a killed process may
    leave a hidden `.tmp` file beside it, which is safe to delete.

        with atomic_write(path) as file:
            file.write(content)
    """
    path = Path(path)
    # In the same directory: a rename across file systems is a copy.
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            # A library that is given the name may have put a file of its own there:
            # safetensors does, and only the owner may read that file.
            os.chmod(temporary, stat.S_IMODE(os.fstat(file.fileno()).st_mode))
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write settings or words as JSON, for people too, whole or not at all."""
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def apply_umask(directory: Path) -> None:
    """Give every file in a directory the mode of any new file.

    Safetensors creates files that only their owner may read, whatever the umask says.
    """
    # The umask can only be read by setting it; a file that another thread creates in
    # between is closed to others, never open to them.
    mask = os.umask(0o077)
    os.umask(mask)
    for path in directory.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~mask)


def sync_directory(directory: Path) -> None:
    """Put the entries of a directory on disk: a rename is one of them."""
    # Windows keeps no handle to flush.
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
