"""The worker process that judges answers, each in its own fork.

It is run by its path and imports nothing of the package, only the standard library and
math-verify, so it starts in half a second and takes 60 MB. It reads pairs of reference
and answer, but never parses them. For each pair it forks a judge, which dies with its
verdict: whatever an answer does to math-verify, to SymPy's caches or to memory is gone
before the next one, and every pair is judged from the same state. It has one thread, so
that no fork copies a held lock.

Messages are JSON after four bytes of length, over a socket that only the worker and its
parent have. Nothing printed to standard output can be a reply, and a judge has no
socket, only one end of a pipe from which a single byte is read.
"""

import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONGEST_MESSAGE = 2**20  #: In bytes.

WAIT = 1.6  #: Clock time that a judge may take, per allowed processor time.

ATTEMPTS = 3  #: Most judges per pair, if a busy machine gave one no processor time.

# UNREADABLE: the reference has no expression. STOPPED: the judge exceeded a limit.
EQUAL, UNEQUAL, UNREADABLE, STOPPED = "equal", "unequal", "unreadable", "stopped"
VERDICTS = (EQUAL, UNEQUAL, UNREADABLE, STOPPED)

_BYTES = {b"=": EQUAL, b"!": UNEQUAL, b"?": UNREADABLE}

# Judged before the first real pair, so that judges need not compile an expression,
# import a part of SymPy or build a grammar table: each fork would do so again.
_WARMING = [
    ("18", "18.0"),
    ("1/2", r"$\frac{1}{2}$"),
    ("0.5", "50%"),
    ("1,234", r"The answer is \boxed{1234}."),
    ("$x=2$", r"$\sqrt{4}$"),
    (r"$2\pi$", "6.2831853"),
    ("$(1, 2]$", r"$\{1, 2\}$"),
    ("7", "3 + 4*1 - (2/2)"),
    ("1800", "18%"),
    ("3", r"$x^2 + 3x + \sin(y)$"),
    ("$x^2 - 1$", "$(x - 3)(x + 6)$"),
    ("7", r"$3 \cdot 4 + 2 \times 5 = 7$"),
    (r"$\sqrt{2}x$", r"$\left(-\frac{x^2}{2}\right)^{3}$"),
]

Judge = Callable[[str, str], str]  #: Maps reference and answer to a verdict.


class BrokenChannel(Exception):
    """The other side is gone, too slow, or sends an invalid message."""


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    content = json.dumps(message).encode()
    try:
        channel.sendall(len(content).to_bytes(4, "big") + content)
    except OSError as error:
        raise BrokenChannel(f"not taken ({type(error).__name__})") from error


def receive(channel: socket.socket, seconds: float | None = None) -> dict[str, Any]:
    """Return one message, received within `seconds` in total."""
    deadline = None if seconds is None else time.monotonic() + seconds
    length = int.from_bytes(_receive_bytes(channel, 4, deadline), "big")
    if length > LONGEST_MESSAGE:
        raise BrokenChannel(f"a message of {length} bytes")
    try:
        message = json.loads(_receive_bytes(channel, length, deadline))
    except (ValueError, RecursionError) as error:
        raise BrokenChannel(f"no JSON ({type(error).__name__})") from error
    if not isinstance(message, dict):
        raise BrokenChannel(f"a {type(message).__name__} for a message")
    return message


def _receive_bytes(channel: socket.socket, count: int, deadline: float | None) -> bytes:
    content = b""
    while len(content) < count:
        if deadline is not None:
            # Not 0, which would make the socket non-blocking.
            channel.settimeout(max(deadline - time.monotonic(), 1e-3))
        try:
            piece = channel.recv(count - len(content))
        except OSError as error:
            raise BrokenChannel(f"silent ({type(error).__name__})") from error
        if not piece:
            raise BrokenChannel("closed")
        content += piece
    return content


def serve(channel: socket.socket, load_judge: Callable[[], Judge]) -> None:
    """Judge pairs until the parent closes the channel; the first message has limits."""
    settings = receive(channel)
    sys.path += [path for path in settings["path"] if path not in sys.path]
    _limit("RLIMIT_AS", settings["memory"])
    _limit("RLIMIT_CORE", 0)
    try:
        judge = load_judge()
        for reference, answer in _WARMING:
            judge(reference, answer)
    except Exception as error:
        send(channel, {"failed": f"{type(error).__name__}: {error}"[:500]})
        return
    # Frozen objects are never collected, so judges share their pages with the worker
    # instead of copying them.
    gc.collect()
    gc.freeze()
    send(channel, {"ready": True})
    while True:
        request = receive(channel)
        verdict = _verdict(judge, channel, request, settings["seconds"])
        send(channel, {"id": request["id"], "verdict": verdict})


def _verdict(
    judge: Judge, channel: socket.socket, request: dict[str, Any], seconds: float
) -> str:
    for _ in range(ATTEMPTS):
        verdict, computed = _fork_judge(judge, channel, request, seconds)
        # Timed out without processor time: a busy machine must not fail an answer.
        if verdict or computed > seconds / 50:
            break
    return verdict or STOPPED


def _fork_judge(
    judge: Judge, channel: socket.socket, request: dict[str, Any], seconds: float
) -> tuple[str | None, float]:
    """Return the verdict, None after a timeout, and the judge's processor time."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setpgid(0, 0)
            os.close(receiver)
            channel.close()
            # The timer is precise; the limit remains if a library resets the timer.
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            _limit("RLIMIT_CPU", int(seconds) + 2)
            _limit("RLIMIT_FSIZE", 0)
            _limit("RLIMIT_NPROC", 0)
            verdict = judge(request["reference"], request["answer"])
            os.write(sender, next(b for b, v in _BYTES.items() if v == verdict))
        finally:
            # Skips all exit handlers and buffers inherited from the parent.
            os._exit(0)
    os.close(sender)
    # Set on both sides of the fork, so that neither continues without it.
    with suppress(OSError):
        os.setpgid(child, child)
    in_time = _wait_readable(receiver, WAIT * seconds)
    byte = os.read(receiver, 1) if in_time else b""
    os.close(receiver)
    # A group that has already ended is no error; systems report it differently.
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    _, _, usage = os.wait4(child, 0)
    reply = _BYTES.get(byte, STOPPED) if in_time else None
    return reply, usage.ru_utime + usage.ru_stime


def _wait_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _limit(name: str, value: int) -> None:
    import resource

    which = getattr(resource, name)
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # macOS defines RLIMIT_AS but refuses to set it.
    with suppress(OSError, ValueError):
        resource.setrlimit(which, (value, value))


def load_math_verify() -> Judge:
    """Return math-verify's comparison, without its own time limits."""
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify

    def judge(reference: str, answer: str) -> str:
        expected = parse(reference, parsing_timeout=None)
        if not expected:
            return UNREADABLE
        got = parse(answer, parsing_timeout=None)
        return EQUAL if verify(expected, got, timeout_seconds=None) else UNEQUAL

    return judge


def main(load_judge: Callable[[], Judge] = load_math_verify) -> None:
    """Judge answers sent over the socket whose descriptor is the only argument."""
    with socket.socket(fileno=int(sys.argv[1])) as channel, suppress(BrokenChannel):
        serve(channel, load_judge)


if __name__ == "__main__":
    main()
