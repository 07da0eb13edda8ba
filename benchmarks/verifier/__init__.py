"""Right, wrong, hostile and harmless answers to the verifier."""

import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.harness import Check, Report
from benchmarks.verifier.harmless import NOT_CARRIED_OUT, PERCENT, Pair, harmless
from benchmarks.verifier.hostile import hostile
from benchmarks.verifier.right_forms import RIGHT, Forms
from benchmarks.verifier.wrong_forms import WRONG
from entrometer.tasks import Verifier, verify_number
from entrometer.tasks.verifier import excess

REFERENCE = "72"
# The same value as a calculation: no number by the grammar, so math-verify reads it.
CALCULATION = r"$8 \cdot 9$"
HARMLESS = 5_000
LONGEST_SECONDS = 2.0
MOST_MIB = 512.0

# A few that people have met in training runs, for plain math-verify to try.
PLAIN_SAMPLE = ("$9^{9^9}$", "9**9**9", "$99999999!$", "$((9!)!)!$")
PLAIN_SECONDS = 4.0


class HeldOutForward(NamedTuple):
    """One pair, with the verdict and the seconds of this verifier and of the plain."""

    pair: Pair
    ours: bool
    plain: bool
    seconds: float
    plain_seconds: float


def run() -> Report:
    with TemporaryDirectory() as directory:
        answers = list(dict.fromkeys(hostile(Path(directory) / "ran")))
        seconds, verdicts = judge_in_a_thread(answers)
        code_ran = len(list(Path(directory).iterdir()))
    # Of the worker and all judges; before there are children of another kind.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    refused = sum(bool(excess(answer, length=256)) for answer in answers)
    form_checks, form_figures = number_forms()
    agreement_checks, agreement_figures = agreement()
    return Report(
        [
            Check("verifier.hostile_answers", len(answers), at_least=300),
            Check("verifier.hostile_scored_right", sum(verdicts), at_most=0),
            Check("verifier.hostile_ran_code", code_ran, at_most=0),
            Check("verifier.longest_seconds", max(seconds), at_most=LONGEST_SECONDS),
            Check("verifier.peak_memory_mib", peak, at_most=MOST_MIB),
            *form_checks,
            *agreement_checks,
            Check(
                "verifier.sample_that_plain_math_verify_did_not_end",
                unfinished_in_plain(),
                at_least=1,
            ),
        ],
        {
            "hostile_refused_before_parsing": refused,
            "hostile_that_took_over_a_second": sum(s >= 1.0 for s in seconds),
            **form_figures,
            **agreement_figures,
        },
    )


def judge_in_a_thread(answers: list[str]) -> tuple[list[float], list[bool]]:
    """Seconds and verdict of each answer; where math-verify's own clock cannot be.

    Each is judged by the grammar of numbers and by math-verify, and must fail in both.
    """
    with Verifier() as verifier, ThreadPoolExecutor(1) as pool:
        # The start of the worker is no answer's time.
        verifier.verify(CALCULATION, "$72$")

        def judge(answer: str) -> tuple[float, bool]:
            start = time.perf_counter()
            verdicts = [verifier.verify(r, answer) for r in (REFERENCE, CALCULATION)]
            return time.perf_counter() - start, any(verdicts)

        judged = list(pool.map(judge, answers))
    return [s for s, _ in judged], [verdict for _, verdict in judged]


def number_forms() -> tuple[list[Check], dict[str, Any]]:
    """Right and wrong forms of numbers, which the grammar decides."""
    seconds: list[float] = []

    def judge(families: dict[str, Forms]) -> list[tuple[str, str, bool]]:
        judged = []
        for forms in families.values():
            for reference, answers in forms.items():
                for answer in dict.fromkeys(answers):
                    start = time.perf_counter()
                    verdict = verify_number(reference, answer)
                    seconds.append(time.perf_counter() - start)
                    judged.append((reference, answer, verdict))
        return judged

    right, wrong = judge(RIGHT), judge(WRONG)
    missed = [(r, a) for r, a, verdict in right if not verdict]
    scored = [(r, a) for r, a, verdict in wrong if verdict]
    return [
        Check("verifier.wrong_forms", len(wrong), at_least=200),
        Check("verifier.wrong_forms_scored", len(scored), at_most=0),
        Check("verifier.right_forms", len(right), at_least=120),
        Check("verifier.right_forms_missed", len(missed) / len(right), at_most=0.02),
    ], {
        "wrong_forms_scored": scored,
        "right_forms_missed": missed,
        "form_median_milliseconds": round(1e3 * median(seconds), 4),
        "form_longest_milliseconds": round(1e3 * max(seconds), 4),
    }


def agreement() -> tuple[list[Check], dict[str, Any]]:
    """Harmless answers, judged as plain math-verify does but for two written rules.

    The rules look at how a pair was written and never at a verdict, so a fault of the
    grammar shows in the agreement.
    """
    judged = judge_harmless(list(harmless(Random(0), HARMLESS)))
    compared = [j for j in judged if not j.pair.differs]
    apart = {
        reason: [j for j in judged if j.pair.differs == reason]
        for reason in (NOT_CARRIED_OUT, PERCENT)
    }
    agreed = sum(j.ours == j.plain for j in compared)
    return [
        Check("verifier.harmless_answers", len(compared), at_least=HARMLESS),
        Check("verifier.agreement", agreed / len(compared), at_least=0.999),
        Check(
            "verifier.calculations_scored",
            sum(j.ours for j in apart[NOT_CARRIED_OUT]),
            at_most=0,
        ),
    ], {
        "disagreed": [j.pair[:2] for j in compared if j.ours != j.plain],
        "apart_by_rule": {
            reason: {"pairs": len(js), "differ": sum(j.ours != j.plain for j in js)}
            for reason, js in apart.items()
        },
        "harmless_right": sum(j.ours for j in compared),
        "median_milliseconds": round(1e3 * median(j.seconds for j in compared), 3),
        "median_milliseconds.plain": round(
            1e3 * median(j.plain_seconds for j in compared), 3
        ),
    }


def judge_harmless(pairs: list[Pair]) -> list[HeldOutForward]:
    from math_verify import parse, verify

    def judge(pair: Pair) -> tuple[bool, float]:
        start = time.perf_counter()
        verdict = verifier.verify(pair.reference, pair.answer)
        return verdict, time.perf_counter() - start

    judged = []
    with Verifier() as verifier, ThreadPoolExecutor(1) as pool:
        verifier.verify(CALCULATION, "$72$")
        for pair, (ours, seconds) in zip(pairs, pool.map(judge, pairs), strict=True):
            start = time.perf_counter()
            plain = verify(parse(pair.reference), parse(pair.answer))
            plain_seconds = time.perf_counter() - start
            judged.append(HeldOutForward(pair, ours, plain, seconds, plain_seconds))
    return judged


def unfinished_in_plain() -> int:
    """How many of the sample plain math-verify has not ended in time.

    Each as it must be called off the main thread, without the clock that is a signal;
    in a process of its own, with twice the memory that one of our judges has.
    """
    source = (
        "import resource, sys\n"
        "from math_verify import parse, verify\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "print(flush=True)\n"
        "answer = parse(sys.argv[1], parsing_timeout=None)\n"
        f"verify(parse({REFERENCE!r}), answer, timeout_seconds=None)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", source, answer],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for answer in PLAIN_SAMPLE
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    time.sleep(PLAIN_SECONDS)
    unfinished = sum(process.poll() is None for process in running)
    for process in running:
        process.kill()
        process.communicate()
    return unfinished
