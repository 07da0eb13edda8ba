"""The parent's side of the verifier's worker process: start, ask and stop it."""

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
    VERDICTS,
    WAIT,
    BrokenChannel,
    receive,
    send,
)

WORKER = Path(__file__).with_name("verifier_worker.py")

# Time for a first import of SymPy from a slow disk, and the delay that a busy machine
# may add to a judge before its worker counts as dead.
_START_SECONDS = 300.0
_REPLY_SECONDS = 10.0

# No other environment variable reaches the worker: it might hold a key.
_KEPT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class VerifierUnavailable(EntrometerError, RuntimeError):
    """No answer can be judged: math-verify is missing, or its process cannot run."""


class VerifierProcess:
    """A process that judges answers. Not thread-safe: `Verifier` holds a lock."""

    def __init__(self, *, seconds: float, memory: int) -> None:
        """Start the worker; each answer gets `seconds` of CPU and `memory` bytes."""
        _check_system()
        self._seconds = seconds
        self._wait = ATTEMPTS * WAIT * seconds
        self._count = 0
        self._channel, theirs = socket.socketpair()
        with theirs:
            # Run by path, without the user's site directory, the working directory or
            # `PYTHON*` variables, so that no stray file can replace a module. `-I` does
            # this too, but also ignores PYTHONHASHSEED, which fixes the order of sets.
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", str(WORKER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C does not reach it, and its process group can be killed.
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
        """Process id of the worker and of its process group."""
        return self._process.pid

    def _begin(self, memory: int) -> None:
        # Appended to the worker's own path, so that they only add packages it would not
        # find: those of PYTHONPATH or of the user's site directory.
        path = [str(p) for p in sys.path if os.path.isabs(p)]
        settings = {"path": path, "seconds": self._seconds, "memory": memory}
        try:
            send(self._channel, settings)
            reply = receive(self._channel, _START_SECONDS)
        except BrokenChannel as error:
            self.stop()
            code = self._process.returncode
            reply = {"failed": f"no reply (channel: {error}; exit code {code})"}
        if reply != {"ready": True}:
            raise VerifierUnavailable(
                f"expected the verifier's process to start, got {reply.get('failed')}. "
                "Check that `python -c 'import math_verify'` works, and that memory "
                "and processes are available."
            )

    def judge(self, reference: str, answer: str) -> str:
        """Return one of `VERDICTS`; raise `BrokenChannel` if no valid one comes."""
        self._count += 1
        request = {"id": self._count, "reference": reference, "answer": answer}
        send(self._channel, request)
        reply = receive(self._channel, self._wait + _REPLY_SECONDS)
        verdict = reply.get("verdict")
        if reply != {"id": self._count, "verdict": verdict} or verdict not in VERDICTS:
            raise BrokenChannel("out of step")
        return str(verdict)

    def stop(self) -> None:
        """Stop the worker and its judge, if one runs."""
        self._channel.close()
        try:
            # Once the channel is closed the worker kills its judge and exits.
            self._process.wait(self._wait + 1)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def abandon(self) -> None:
        """Forget a worker that belongs to the parent of this forked process."""
        self._channel.close()
        # It is not a child of this process, so Popen must neither wait nor warn.
        self._process.returncode = 0


def _check_system() -> None:
    if find_spec("math_verify") is None:
        raise VerifierUnavailable(
            "judging this answer needs the package math-verify, which is not "
            "installed. Run `python -m pip install 'entrometer[tasks]'`."
        )
    if not hasattr(os, "fork"):
        raise VerifierUnavailable(
            f"expected a system that can fork, got {sys.platform}. Use Linux or macOS."
        )
