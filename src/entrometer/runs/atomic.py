"""Durable writes: files that are complete or absent, and a lock on a run."""

import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from entrometer.errors import EntrometerError

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

LOCK = ".lock"
"""Name of the file that the process working in a directory locks; never sealed."""


class DamagedFile(EntrometerError, ValueError):
    """A file that is truncated, altered or of another kind than expected."""


class NotWritten(EntrometerError, OSError):
    """A file that could not be written, for example because the disk is full."""


class RunInUse(EntrometerError, RuntimeError):
    """A run directory that another process is working in."""


# Messages of torch and safetensors about a failed write, which they do not raise as an
# OSError.
_FAILED_WRITES = ("unexpected pos", "write failed", "failed writing", "os error")


@contextmanager
def naming_full_disk(directory: Path) -> Iterator[None]:
    """Turn an OSError or a failed write into `NotWritten`, naming the newest file."""
    try:
        yield
    except EntrometerError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not any(
            words in str(error) for words in _FAILED_WRITES
        ):
            raise
        # The libraries do not name the file: it is the one written to last.
        files = [p for p in directory.rglob("*") if p.is_file()]
        last = max(files, key=lambda p: p.stat().st_mtime_ns, default=directory)
        free = shutil.disk_usage(directory).free / 2**20
        why = (str(error).splitlines() or [""])[0]
        raise NotWritten(
            f"{last}: could not be written ({type(error).__name__}: {why}); the disk "
            f"has {free:.0f} MiB left. Free some space, then run the same command with "
            "--resume"
        ) from error


_left_to_leader = 0
"""Number of `leave_to_leader` contexts that this process is in."""


@contextmanager
def leave_to_leader() -> Iterator[None]:
    """Drop what `atomic_write` writes, unless it is this process's `own`.

    For the members of a group of processes that compute the same results as its leader,
    whose files are the group's.
    """
    global _left_to_leader
    _left_to_leader += 1
    try:
        yield
    finally:
        _left_to_leader -= 1


def writes_results() -> bool:
    """Return whether this process writes results, rather than leave it to a leader."""
    return not _left_to_leader


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, own: bool = False
) -> Iterator[BinaryIO]:
    """Open a file that gets the name `path` only once it is complete and on disk.

    A reader of `path`, during the write or after a crash or power failure at any point,
    sees the old file or the new one. On an error the old file stays. A killed process
    may leave a hidden `.tmp` file next to it, which is safe to delete.

        with atomic_write(path) as file:
            file.write(content)

    Args:
        path: Name of the file.
        own: Write it also in `leave_to_leader`, where other files are dropped: no other
            process writes this one.
    """
    path = Path(path)
    kept = own or writes_results()
    # In the same directory: a rename across file systems is a copy.
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            if kept:
                _to_disk(file, temporary)
        if kept:
            os.replace(temporary, path)
        else:
            temporary.unlink()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if kept:
        sync_directory(path.parent)


def _to_disk(file: BinaryIO, path: Path) -> None:
    """Flush an open file of that name to disk, with the mode that it was opened in."""
    file.flush()
    # A library that is given the name may have replaced the file by another:
    # safetensors does, and only the owner may read that one.
    os.chmod(path, stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    # The content must be on disk before the rename: some file systems would otherwise
    # keep the new name with no content after a power failure.
    with open(path, "rb") as written:
        os.fsync(written.fileno())


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write indented JSON, complete or not at all."""
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def apply_umask(directory: Path) -> None:
    """Give every file in a directory the mode of a newly created file.

    Safetensors creates files that only their owner may read, whatever the umask.
    """
    # The umask can only be read by setting it. A file that another thread creates in
    # between gets too few permissions, never too many.
    mask = os.umask(0o077)
    os.umask(mask)
    for path in directory.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~mask)


def sync_directory(directory: Path) -> None:
    """Flush the entries of a directory to disk; a rename changes one of them."""
    # Windows has no handle of a directory to flush.
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Lock a run directory for this process, and create it if it does not exist.

    Raises `RunInUse`, with the pid of the holder, if another process has the lock. The
    lock is the kernel's (`flock`) on the file `.lock`: it ends with its process, in
    whatever way, and the file stays. A network file system may restrict it to one
    machine (old NFS) or not support it, which logs a warning. Windows has no such lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # Opened without truncation: the file has the pid of the current holder.
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if _locked(descriptor, directory):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    """Return whether a process has the lock of a run directory; see `hold`.

    False without a lock: on Windows, and on a file system that does not support it.
    """
    if fcntl is None:
        return False
    try:
        # Opened for reading: a run of another user, or on a read-only disk.
        descriptor = os.open(
            directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        # This also gives back the lock that the question took.
        os.close(descriptor)
    return False


def _locked(descriptor: int, directory: Path) -> bool:
    if fcntl is None:
        return False
    try:
        _take(descriptor)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise RunInUse(
            f"{directory}: expected a run that no other process uses, got one that "
            f"process {pid} holds; wait for it or stop it, or choose another directory "
            "with --run"
        ) from None
    except OSError as error:
        logger.warning(
            "%s: no lock on this file system (%s); let no other process use the run",
            directory,
            error.strerror,
        )
        return False
    return True


def _take(descriptor: int) -> None:
    exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB
    try:
        fcntl.flock(descriptor, exclusive)
    except BlockingIOError:
        # `is_held` in another process has the lock for an instant.
        time.sleep(0.05)
        fcntl.flock(descriptor, exclusive)
