"""One process at a time in a run directory."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entrometer.errors import EntrometerError
from entrometer.runs.complete import LOCK

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)


class RunInUse(EntrometerError, RuntimeError):
    """A run directory that another process works in."""


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Hold a run directory, which is made if need be, for this process alone.

    The lock is the kernel's (`flock`) on the file `.lock`, which has the holder's pid:
    it ends with its process, however that ends, and the file stays. A network file
    system may keep the lock to one machine (old NFS) or not have it; where it is
    refused, a warning says so and work goes on without.

    Raises:
        RunInUse: If another process holds it; with its pid.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # Not truncated by opening: it has the pid of whoever holds it.
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if _locked(descriptor, directory):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, directory: Path) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise RunInUse(
            f"{directory}: expected a run that no process works in, got one that "
            f"process {pid} holds; wait for it or stop it, or choose another directory "
            "with --run"
        ) from None
    except OSError as error:
        logger.warning(
            "%s: no lock on this file system (%s); let no other process work in it",
            directory,
            error.strerror,
        )
        return False
    return True
