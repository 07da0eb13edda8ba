"""Run each case in a child of a process that has everything imported."""

import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import resident_kib
from benchmarks.hostile.case import Case, Workshop

TIMEOUT = 30.0
# Not part of a refusal: progress before it, and what Rust prints of a panic, which
# Python cannot hold back.
_NOISE = re.compile(
    r"\w+ +\d+%, |thread '.*panicked at|Precompiled:|note: |stack|\s+(\d+:|at )"
)


@dataclass(frozen=True)
class Outcome:
    """How a case ended."""

    case: Case
    code: int
    text: str
    """What was written to stderr."""

    seconds: float
    """Processor time; infinite if the case had to be killed."""

    mebibytes: float
    """Growth of the resident memory at its peak, above the size of the input itself.

    Looked at every few milliseconds: a gigabyte takes a hundred to be filled.
    """

    ran: bool
    """Whether code from the input ran."""

    @property
    def traceback(self) -> bool:
        """Whether anything but a refusal ended the command."""
        return "Traceback" in self.text or self.code not in (0, 2)

    @property
    def silent(self) -> bool:
        """Whether the input was read, and nothing was said of it."""
        said = self.case.stated
        return self.code == 0 and not (said and said in self.text)

    @property
    def unnamed(self) -> bool:
        """Whether a refusal is longer than a line, or does not name its cause."""
        lines = [x for x in self.text.splitlines() if x and not _NOISE.match(x)]
        return self.code == 2 and (len(lines) != 1 or self.case.names not in lines[0])


def run(case: Case, world: Path, work: Callable[[list[str]], int]) -> Outcome:
    """Make the input, then run the command on it in a child process."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile() as log:
        shop = Workshop(world, Path(name))
        arguments = _made(case, shop)
        size = _bytes(shop.folder)
        sys.stdout.flush()
        sys.stderr.flush()
        # A child begins with what the parent has in memory, but for pages of files:
        # libraries would show as growth, so they are left out.
        start = peak = resident_kib(os.getpid())["anonymous"]
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _child(arguments, shop.folder, log.fileno(), work)
        killed = False
        while True:
            peak = max(peak, resident_kib(child)["anonymous"])
            done, status, usage = os.wait4(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() - began > TIMEOUT and not killed:
                os.kill(child, signal.SIGKILL)
                killed = True
            time.sleep(0.002)
        log.seek(0)
        return Outcome(
            case=case,
            code=os.waitstatus_to_exitcode(status),
            text=log.read().decode(errors="replace"),
            seconds=float("inf") if killed else usage.ru_utime + usage.ru_stime,
            mebibytes=max(0.0, (peak - start) / 1024 - size / 2**20),
            ran=shop.canary.exists(),
        )


def _made(case: Case, shop: Workshop) -> list[str]:
    """Make the input in a process of its own.

    Memory that this process had used before would hide what the command takes.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.write(write, json.dumps(case.make(shop)).encode())
            os._exit(0)
        os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as made:
        arguments: list[str] = json.loads(made.read() or b"[]")
    os.waitpid(child, 0)
    assert arguments, f"{case.family}: {case.name} could not be made"
    return arguments


def _bytes(folder: Path) -> int:
    # A sparse file has the size that it takes, not the one that it claims.
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(p.stat().st_blocks * 512 for p in files)


def _child(
    arguments: list[str], folder: Path, log: int, work: Callable[[list[str]], int]
) -> None:
    """Run the command and leave: nothing of the parent may run after it."""
    code = 70
    with suppress(BaseException):
        os.chdir(folder)
        # The descriptors themselves: libraries that are not Python write there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(log, 2)
        try:
            code = work(arguments)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


def main(arguments: list[str]) -> int:
    """The command line itself."""
    from entrometer.cli import main as command_line

    if arguments[0] == "--limited":
        most = int(arguments[1])
        arguments = arguments[2:]
        # Every write beyond that size fails, as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return command_line(arguments)
