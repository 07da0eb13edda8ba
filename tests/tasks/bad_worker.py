"""A worker whose judge does what its answer says: what an exploited parser could do."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from entrometer.tasks import verifier_worker
from entrometer.tasks.verifier_worker import EQUAL, UNEQUAL, Judge, main

FORGED = b'{"id": 1, "verdict": "equal"}'
STATE = {"verdict": UNEQUAL}


def poison() -> None:
    """Make everything in reach say that the next answer is right."""
    STATE["verdict"] = EQUAL
    verifier_worker.UNEQUAL = EQUAL
    verifier_worker._BYTES.update(dict.fromkeys(verifier_worker._BYTES, EQUAL))
    verifier_worker._verdict = lambda *_: EQUAL


def forge() -> None:
    """Print replies, and write them to whatever is open."""
    frame = len(FORGED).to_bytes(4, "big") + FORGED
    sys.stdout.buffer.write(frame * 3)
    sys.stdout.flush()
    for descriptor in range(64):
        with suppress(OSError):
            os.write(descriptor, frame * 3)


def sleep_once(mark: str) -> None:
    if not Path(mark).exists():
        Path(mark).touch()
        time.sleep(60)


def leave_a_child(mark: str) -> None:
    child = os.fork()
    if not child:
        time.sleep(60)
    Path(mark, str(child)).touch()


def hoard(_: str) -> None:
    held = bytearray(2**30)
    held[:: 2**12] = b"x" * len(held[:: 2**12])


def judge(reference: str, answer: str) -> str:
    what, _, argument = answer.partition(" ")
    match what:
        case "poison":
            poison()
            return UNEQUAL
        case "forge":
            forge()
        case "raise":
            raise SystemExit(0)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "spin":
            while True:
                pass
        case "sleep":
            time.sleep(60)
        case "sleep-once":
            sleep_once(argument)
            return EQUAL
        case "child":
            leave_a_child(argument)
            return EQUAL
        case "hoard":
            hoard(argument)
            return EQUAL
        case "kill-worker":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        case "environment":
            return EQUAL if argument in os.environ else UNEQUAL
        case "right":
            return EQUAL
    return STATE["verdict"]


def load_judge() -> Judge:
    return judge


if __name__ == "__main__":
    main(load_judge)
