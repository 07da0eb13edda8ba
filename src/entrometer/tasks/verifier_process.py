"""The verifier's side of its worker process: start it, ask it, end it."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from entrometer.errors import EntrometerError
from entrometer.tasks.verifier_worker import (
    ATTEMPTS,
    EQUAL,
    STOPPED,
    UNEQUAL,
    UNREADABLE,
    WAIT,
    BrokenChannel,
    receive,
    send,
)

WORKER = Path(__file__).with_name("verifier_worker.py")

# A first import of SymPy from a slow disk; and what a busy machine may add to the time
# of a judge before its worker is taken for dead.
_START_SECONDS = 300.0
_REPLY_SECONDS = 10.0

# Nothing else of the environment is handed on: it may hold keys.
_KEPT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class VerifierUnavailable(EntrometerError, RuntimeError):
    """No answer can be judged: a package is missing, or its process does not run."""


class VerifierProcess:
    """A running worker. Not to be shared by threads: the verifier has the lock."""

    def __init__(self, *, seconds: float, memory: int) -> None:
        """Start the worker and wait until it can judge.

        Args:
            seconds: Processor time that a judge may take.
            memory: Bytes of address space that it may have.
        """
        _check_system()
        self._seconds = seconds
        self._wait = ATTEMPTS * WAIT * seconds
        self._count = 0
        self._channel, theirs = socket.socketpair()
        with theirs:
            # By path, without the user's site, the working directory or `PYTHON*`:
            # nothing lying about can stand in for a module. `-I` would be that, but
            # ignore the seed too, with which the order of sets is the same each time.
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", str(WORKER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Out of reach of a Ctrl-C, and a group of its own to kill.
                start_new_session=True,
                cwd="/",
                env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
                | {name: os.environ[name] for name in _KEPT if name in os.environ},
            )
        try:
            self._begin(memory)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The worker's process id, which is also that of its group."""
        return self._process.pid

    def _begin(self, memory: int) -> None:
        # Last, so that they only add what is not found without them: an environment
        # that is set by PYTHONPATH, or the user's own packages.
        path = [str(p) for p in sys.path if os.path.isabs(p)]
        settings = {"path": path, "seconds": self._seconds, "memory": memory}
        try:
            send(self._channel, settings)
            reply = receive(self._channel, _START_SECONDS)
        except BrokenChannel as error:
            self.stop()
            code = self._process.returncode
            reply = {"failed": f"a channel that is {error}, and exit code {code}"}
        if reply != {"ready": True}:
            raise VerifierUnavailable(
                f"expected the verifier's process to start, got {reply.get('failed')}. "
                "Check that `python -c 'import math_verify'` works, and that memory "
                "and processes are to be had."
            )

    def judge(self, reference: str, answer: str) -> str:
        """Return the worker's verdict on one pair.

        Raises:
            BrokenChannel: The worker is dead, silent or not to be understood.
        """
        self._count += 1
        send(
            self._channel,
            {"id": self._count, "reference": reference, "answer": answer},
        )
        reply = receive(self._channel, self._wait + _REPLY_SECONDS)
        verdict = reply.get("verdict")
        known = (EQUAL, UNEQUAL, UNREADABLE, STOPPED)
        if reply != {"id": self._count, "verdict": verdict} or verdict not in known:
            raise BrokenChannel("out of step")
        return str(verdict)

    def stop(self) -> None:
        """End the worker and the judge that it may have."""
        self._channel.close()
        try:
            # It ends by itself once the channel is closed, and ends its judge first.
            self._process.wait(self._wait + 1)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def abandon(self) -> None:
        """Let go of a worker that belongs to the process this one was forked from."""
        self._channel.close()
        # It is no child of this process, which must neither wait for it nor warn.
        self._process.returncode = 0


def _check_system() -> None:
    if find_spec("math_verify") is None:
        raise VerifierUnavailable(
            "judging this answer needs the package math-verify, which is not "
            "installed. Run `python -m pip install 'entrometer[tasks]'`."
        )
    if not hasattr(os, "fork"):
        raise VerifierUnavailable(
            f"expected a system that can fork, got {sys.platform}. Judge answers on "
            "Linux or macOS."
        )
