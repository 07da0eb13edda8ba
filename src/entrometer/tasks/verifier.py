"""Whether an answer, untrusted text, equals its reference."""

import atexit
import math
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from weakref import WeakSet

from entrometer.errors import InvalidValue
from entrometer.tasks import template
from entrometer.tasks.number_answer import (
    LONGEST_EXPONENT,
    end_of_bracket,
    read_answer,
    read_reference,
)
from entrometer.tasks.registry import Score
from entrometer.tasks.template import LONGEST_ANSWER
from entrometer.tasks.verifier_process import VerifierProcess, VerifierUnavailable
from entrometer.tasks.verifier_worker import EQUAL, UNREADABLE, BrokenChannel

DEEPEST_NESTING = 10  #: Most brackets inside one another.
LONGEST_NUMBER = 30  #: Most digits in a row.

# Control, format (bidirectional marks, zero widths), surrogate, private and unassigned.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
_BLANKS = "\t\n\r"

_POWER = re.compile(r"\^|\*\*")
_BEFORE_EXPONENT = re.compile(r"(?:[\s+\-]|\\left)*")
_ATOM = re.compile(r"[\\\w.]*")
_BLANK = re.compile(r"\s*")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def excess(text: str, *, length: int, powers: bool = True) -> str:
    """Return a description of the limit that `text` exceeds, "" if none.

    Powers are limited for a parser that computes them; the grammar of numbers reads
    `**18**` as bold. Time is at most quadratic in `length`, the allowed number of
    characters. Text within the limits may still take time or memory, so a process with
    limits on both judges it.
    """
    if len(text) > length:
        return f"{len(text)} characters, where {length} are the limit"
    # Shortcut: most answers are printable ASCII, which has no such character.
    for character in "" if text.isascii() and text.isprintable() else text:
        category = unicodedata.category(character)
        if category in _UNPRINTABLE and character not in _BLANKS:
            return f"the character U+{ord(character):04X} of category {category}"
    digits = max((len(run) for run in re.findall(r"\d+", text)), default=0)
    if digits > LONGEST_NUMBER:
        return f"{digits} digits in a row, where {LONGEST_NUMBER} are the limit"
    depth = _nesting(text)
    if depth > DEEPEST_NESTING:
        return f"brackets {depth} deep, where {DEEPEST_NESTING} is the limit"
    return _excess_of_powers(text) if powers else ""


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        step = (character in _CLOSING) - (character in _CLOSING.values())
        depth = max(depth + step, 0)
        deepest = max(deepest, depth)
    return deepest


def _excess_of_powers(text: str) -> str:
    for power in _POWER.finditer(text):
        start = _end(_BEFORE_EXPONENT, text, power.end())
        end = _end_of_exponent(text, start)
        exponent = text[start:end]
        if _POWER.search(exponent) or _POWER.match(text, _end(_BLANK, text, end)):
            return "a power in an exponent"
        if re.search(rf"\d{{{LONGEST_EXPONENT + 1}}}", exponent):
            return f"an exponent of more than {LONGEST_EXPONENT} digits"
    return ""


def _end_of_exponent(text: str, start: int) -> int:
    if text[start : start + 1] not in _CLOSING:
        return _end(_ATOM, text, start)
    end = end_of_bracket(text, start + 1, text[start] + _CLOSING[text[start]])
    return len(text) if end < 0 else end + 1


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    # Every pattern also matches the empty string, so there is always a match.
    match = pattern.match(text, start)
    assert match is not None
    return match.end()


# math-verify and SymPy need 70 MiB before the first answer.
_LEAST_MEMORY_MIB = 128


@dataclass(eq=False)
class Verifier:
    """Judges answers: numbers by a grammar, everything else by math-verify.

    Text over a size limit is no answer and is not parsed. If the reference is a number,
    the answer must be one number by the grammar in docs/tasks.md, and the two are
    compared as exact fractions. Other references go to a worker process with
    math-verify, which forks a judge for each answer. A judge that takes too long or too
    much memory is killed, and its answer counts as not equal.

    The worker starts with the first answer that needs it, and ends with `close`, with
    the block of a `with`, or with this process. Threads may share a verifier; they are
    served one by one. A forked process starts its own worker.
    """

    #: Processor time for one answer. It may take 1.6 times as long by the clock, and is
    #: judged again if a busy machine gave it almost no processor time.
    seconds: float = 1.0
    memory_mib: int = 512  #: Address space for one answer; resident memory is less.
    length: int = LONGEST_ANSWER  #: Most characters of an answer or a reference.
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _process: VerifierProcess | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InvalidValue(
                f"expected a finite time above 0, got seconds={self.seconds}; "
                "use 1, which is enough for any answer that people write"
            )
        if self.memory_mib < _LEAST_MEMORY_MIB:
            raise InvalidValue(
                f"expected at least {_LEAST_MEMORY_MIB} MiB to judge an answer, got "
                f"memory_mib={self.memory_mib}; math-verify alone takes 70: raise it"
            )
        if self.length < 1:
            raise InvalidValue(
                f"expected a length of at least 1, got length={self.length}; raise it"
            )
        _VERIFIERS.add(self)

    def verify(self, reference: str, answer: str) -> bool:
        """Return whether `answer`, untrusted text, equals `reference`.

        `reference` is a number such as `18`, `-7.5` or `1/2`, or an expression that
        math-verify finds in a text. Raises `InvalidValue` if the reference is over a
        limit or has no expression, and `VerifierUnavailable` if math-verify cannot run.
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
        """Return, for each pair (reference, answer), whether they are equal."""
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
            # A dead judge is a verdict. A dead worker was killed from outside, by hand
            # or for lack of memory, and says nothing about the answer: try once more.
            for _ in range(2):
                if self._process is None:
                    memory = self.memory_mib * 2**20
                    self._process = VerifierProcess(seconds=self.seconds, memory=memory)
                try:
                    return self._process.judge(reference, answer)
                except BrokenChannel as error:
                    last = error
                    self._end_process()
                except BaseException:
                    # Its reply would otherwise be read as that of the next answer.
                    self._end_process()
                    raise
        raise VerifierUnavailable(
            f"expected a verdict from the verifier's process, got none twice (channel: "
            f"{last}). Check that memory and processes are available."
        )

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _after_fork(self) -> None:
        # A thread of the parent may have held the lock; it does not exist here.
        self._lock = Lock()
        process, self._process = self._process, None
        if process is not None:
            process.abandon()


def verify(reference: str, answer: str) -> bool:
    """Return whether `answer` equals `reference`, by a shared default `Verifier`."""
    return _SHARED.verify(reference, answer)


def verify_many(pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """Return, for each pair (reference, answer), whether `verify` finds them equal."""
    return _SHARED.verify_many(pairs)


def verify_number(reference: str, answer: str) -> bool:
    """Return whether `answer` states the number that `reference` states.

    math-verify is not used: it evaluates sums, so that the copied question would be a
    correct answer, and it extracts a number from text such as "not 18". Raises
    `InvalidValue` for a reference that is over a limit or not a number.
    """
    if _number(reference, _SHARED.length) is None:
        raise _bad_reference(reference, "something else than a number")
    return _SHARED.verify(reference, answer)


def score_number(reference: str, response: str) -> Score:
    """Return the scores of a response whose reference is a number."""
    answer = template.extract_answer(response)
    return Score(
        answer=float(answer is not None and verify_number(reference, answer)),
        format=float(template.parse(response) is not None),
    )


# Cached, because each reference is compared with many answers.
@lru_cache(maxsize=1024)
def _number(reference: str, length: int) -> Fraction | None:
    if reason := excess(reference, length=length):
        raise _bad_reference(reference, reason)
    return read_reference(reference)


def _bad_reference(reference: str, reason: str) -> InvalidValue:
    shown = repr(reference)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return InvalidValue(
        f"expected a reference answer to compare with, got {reason} in {shown}; no "
        "answer could be correct: fix the problem, or leave it out"
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
