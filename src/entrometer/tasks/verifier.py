"""Whether an answer equals its reference, whatever the answer is."""

import atexit
import math
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from weakref import WeakSet

from entrometer.errors import InvalidValue
from entrometer.tasks.number_answer import read_answer, read_reference
from entrometer.tasks.template import LONGEST_ANSWER
from entrometer.tasks.verifier_limits import excess
from entrometer.tasks.verifier_process import VerifierProcess, VerifierUnavailable
from entrometer.tasks.verifier_worker import EQUAL, UNREADABLE, BrokenChannel

# What math-verify and SymPy need before they have seen an answer, and some room.
_LEAST_MEMORY_MIB = 128


@dataclass(eq=False)
class Verifier:
    """Judges answers: numbers by a grammar of its own, the rest by math-verify.

    Text that is over a limit of size is no answer, and is not parsed. Where the
    reference is a number, the answer must be one number by the grammar in
    docs/tasks.md, and the two are compared as exact fractions. Other references go to a
    worker with math-verify, which forks a judge for each answer; a judge that takes too
    long or too much memory is killed, and the answer is not equal. No judge sees what
    another has done.

    The worker starts with the first answer that needs it, sleeps between answers, and
    ends with `close`, with the block of a `with`, or with this process. Any number of
    threads may ask; they are served one by one, and the time of an answer starts when
    its turn comes. A forked process has a worker of its own.
    """

    seconds: float = 1.0
    """Processor time for one answer; by the clock it may take 1.6 times as long, and is
    judged again where a busy machine gave it next to none of that."""

    memory_mib: int = 512
    """Address space for one answer, in MiB; what it can have in memory is less."""

    length: int = LONGEST_ANSWER
    """Characters that an answer or a reference may have."""

    _lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False
    )
    _process: VerifierProcess | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InvalidValue(
                f"expected a time above 0 for an answer, got seconds={self.seconds}; "
                "1 is enough for any that people write"
            )
        if self.memory_mib < _LEAST_MEMORY_MIB:
            raise InvalidValue(
                f"expected at least {_LEAST_MEMORY_MIB} MiB, got "
                f"memory_mib={self.memory_mib}; math-verify takes 70 by itself"
            )
        if self.length < 1:
            raise InvalidValue(
                f"expected a length of at least 1, got length={self.length}; "
                f"{LONGEST_ANSWER} is the default"
            )
        _VERIFIERS.add(self)

    def verify(self, reference: str, answer: str) -> bool:
        r"""Return whether `answer`, untrusted text, equals `reference`.

        Args:
            reference: The right answer: a number such as `18`, `-7.5` or `1/2`, or
                mathematics that math-verify finds in a text, such as `$x^2$`.
            answer: What is judged. Over any limit it is not equal.

        Raises:
            InvalidValue: The reference is over a limit, or has no mathematics.
            VerifierUnavailable: math-verify is missing, or its process cannot run.
        """
        expected = _number(reference, self.length)
        if excess(answer, length=self.length, powers=expected is None):
            return False
        if expected is not None:
            return read_answer(answer) == expected
        verdict = self._ask(reference, answer)
        if verdict == UNREADABLE:
            raise _bad_reference(reference, "nothing that math-verify reads")
        return verdict == EQUAL

    def verify_many(self, pairs: Iterable[tuple[str, str]]) -> list[bool]:
        """Return `verify` of each pair of reference and answer."""
        return [self.verify(reference, answer) for reference, answer in pairs]

    def close(self) -> None:
        """End the worker. The next answer that needs one starts another."""
        with self._lock:
            self._end_process()

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, reference: str, answer: str) -> str:
        with self._lock:
            # A judge that dies is a verdict. A worker that dies was ended from outside,
            # by hand or for want of memory, and says nothing about the answer.
            for _ in range(2):
                if self._process is None:
                    self._process = VerifierProcess(
                        seconds=self.seconds, memory=self.memory_mib * 2**20
                    )
                try:
                    return self._process.judge(reference, answer)
                except BrokenChannel as error:
                    last = error
                    self._end_process()
                except BaseException:
                    # Its reply is still to come, and would be taken for the next one's.
                    self._end_process()
                    raise
        raise VerifierUnavailable(
            f"expected a verdict from the verifier's process, got a channel that is "
            f"{last}, twice. Check that memory and processes are to be had."
        )

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _after_fork(self) -> None:
        # A thread that had the lock is not in this process to release it.
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            process.abandon()


def verify(reference: str, answer: str) -> bool:
    """Return `Verifier.verify` with the usual limits, by a worker that is shared."""
    return _SHARED.verify(reference, answer)


def verify_many(pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """Return `verify` of each pair of reference and answer."""
    return _SHARED.verify_many(pairs)


def verify_number(reference: str, answer: str) -> bool:
    """Return `verify` for a task whose references are numbers.

    math-verify has no part in it: it works sums out, so that the question, copied,
    would be a right answer, and it takes one number out of a text such as "not 18".

    Raises:
        InvalidValue: The reference is over a limit, or is not a number.
    """
    if _number(reference, _SHARED.length) is None:
        raise _bad_reference(reference, "something else than a number")
    return _SHARED.verify(reference, answer)


# Each problem has many answers.
@lru_cache(maxsize=1024)
def _number(reference: str, length: int) -> Fraction | None:
    """The number that a reference is, None if it is for math-verify to read."""
    if reason := excess(reference, length=length):
        raise _bad_reference(reference, reason)
    return read_reference(reference)


def _bad_reference(reference: str, reason: str) -> InvalidValue:
    shown = repr(reference)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return InvalidValue(
        f"expected a reference answer to compare with, got {reason} in {shown}; no "
        "answer could ever be right: correct the problem, or leave it out"
    )


_VERIFIERS: WeakSet[Verifier] = WeakSet()
_SHARED = Verifier()


@atexit.register
def _close_all() -> None:
    for verifier in list(_VERIFIERS):
        verifier.close()


def _after_fork() -> None:
    for verifier in list(_VERIFIERS):
        verifier._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
