"""Hostile answers to the verifier, and harmless ones against plain math-verify."""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.harness import Check, Report
from entrometer.tasks import Verifier
from entrometer.tasks.verifier_limits import excess

REFERENCE = "72"
HARMLESS = 5_000
LONGEST_SECONDS = 2.0
MOST_MIB = 512.0

# A few that people have met in training runs, for plain math-verify to try.
PLAIN_SAMPLE = ("$9^{9^9}$", "9**9**9", "$99999999!$", "$((9!)!)!$")
PLAIN_SECONDS = 4.0


def run() -> Report:
    with TemporaryDirectory() as directory:
        answers = list(dict.fromkeys(hostile(Path(directory) / "ran")))
        seconds, verdicts = judge_in_a_thread(answers)
        code_ran = len(list(Path(directory).iterdir()))
    # Of the worker and all judges; before there are children of another kind.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    refused = sum(bool(excess(answer, length=256)) for answer in answers)
    pairs = list(harmless(Random(0)))
    agreed, ours, plain = agreement(pairs)
    return Report(
        [
            Check("verifier.hostile_answers", len(answers), at_least=300),
            Check("verifier.hostile_scored_right", sum(verdicts), at_most=0),
            Check("verifier.hostile_ran_code", code_ran, at_most=0),
            Check("verifier.longest_seconds", max(seconds), at_most=LONGEST_SECONDS),
            Check("verifier.peak_memory_mib", peak, at_most=MOST_MIB),
            Check("verifier.harmless_answers", len(pairs), at_least=HARMLESS),
            Check("verifier.agreement", agreed / len(pairs), at_least=0.999),
            Check(
                "verifier.sample_that_plain_math_verify_did_not_end",
                unfinished_in_plain(),
                at_least=1,
            ),
        ],
        {
            "hostile_refused_before_parsing": refused,
            "hostile_that_took_over_a_second": sum(s >= 1.0 for s in seconds),
            "harmless_right": sum(verdict for _, verdict in ours),
            "median_milliseconds": round(1e3 * median(s for s, _ in ours), 3),
            "median_milliseconds.plain": round(1e3 * median(plain), 3),
        },
    )


def judge_in_a_thread(answers: list[str]) -> tuple[list[float], list[bool]]:
    """Seconds and verdict of each answer; where math-verify's own clock cannot be."""
    with Verifier() as verifier, ThreadPoolExecutor(1) as pool:
        # The start of the worker is no answer's time.
        verifier.verify(REFERENCE, "$72$")

        def judge(answer: str) -> tuple[float, bool]:
            start = time.perf_counter()
            verdict = verifier.verify(REFERENCE, answer)
            return time.perf_counter() - start, verdict

        judged = list(pool.map(judge, answers))
    return [s for s, _ in judged], [verdict for _, verdict in judged]


def agreement(
    pairs: list[tuple[str, str]],
) -> tuple[int, list[tuple[float, bool]], list[float]]:
    """How often both say the same; what ours said, and the seconds of each."""
    from math_verify import parse, verify

    def judge(pair: tuple[str, str]) -> tuple[float, bool]:
        start = time.perf_counter()
        verdict = verifier.verify(*pair)
        return time.perf_counter() - start, verdict

    agreed, seconds = 0, []
    with Verifier() as verifier, ThreadPoolExecutor(1) as pool:
        verifier.verify(REFERENCE, "$72$")
        ours = pool.map(judge, pairs)
        judged = []
        for reference, answer in pairs:
            start = time.perf_counter()
            expected = verify(parse(reference), parse(answer))
            seconds.append(time.perf_counter() - start)
            judged.append(next(ours))
            agreed += judged[-1][1] == expected
    return agreed, judged, seconds


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


def hostile(canary: Path) -> Iterator[str]:
    """Answers none of which is 72, by families; `canary` is what their code creates."""
    for family in (
        _towers,
        _nesting,
        _digits,
        _factorials,
        _sums,
        _matrices,
        _sets,
        _algebra,
        _formats,
        _characters,
        _forgeries,
        _units,
        _repetitions,
    ):
        yield from family()
    yield from _code(canary)


def _towers() -> Iterator[str]:
    for base in (2, 3, 7, 9, 99, 9999):
        for tower in (
            "{0}^{{{0}^{0}}}",
            "{0}^{0}^{0}",
            "{0}**{0}**{0}",
            "{0}^{{{0}^{{{0}^{{{0}^{0}}}}}}}",
            r"\left({0}^{{{0}}}\right)^{{\left({0}^{{{0}}}\right)}}",
        ):
            text = tower.format(base)
            yield from (text, f"${text}$", rf"\boxed{{{text}}}")
    yield from ("(((9**999)**999)**999)", "$((9^{9999})^{9999})^{9999}$")
    yield from (
        "9^99999999",
        "$0.9^{99999999}$",
        "$2^{-99999999}$",
        "$e^{e^{e^{e^9}}}$",
    )


def _nesting() -> Iterator[str]:
    for depth in (5, 9, 11, 30, 120, 1000, 100_000):
        yield "(" * depth + "1" + ")" * depth
        yield "$" + r"\frac{1}{1+" * depth + "1" + "}" * depth + "$"
        yield "$" + r"\sqrt{2+" * depth + "1" + "}" * depth + "$"
        yield "$" + r"\left(" * depth + "1" + r"\right)" * depth + "$"
        yield r"\boxed{" * depth + "1" + "}" * depth
        yield "{" * depth + "[" * depth + "(" * depth
    for root in (9, 999, 9999):
        yield rf"$\sqrt[{root}]{{{root}!}}$"


def _digits() -> Iterator[str]:
    for count in (31, 100, 255, 4_301, 100_000, 1_000_000):
        yield "9" * count
        yield "-" + "7" * count
        yield "0." + "3" * count
        yield ",".join(["123"] * (count // 4 + 1))
        yield "1/" + "3" * count
        yield f"${'8' * count}$"


def _factorials() -> Iterator[str]:
    for n in (99, 9_999, 9_999_999, 99_999_999):
        yield from (f"${n}!$", rf"\boxed{{{n}!}}", f"${n}!!$")
    yield from ("$((9!)!)!$", "$9!!!!!!!!$", r"$\binom{99999999}{49999999}$")
    yield r"$\Gamma(99999999)$"


def _sums() -> Iterator[str]:
    for bound in ("9999", "99999999", r"\infty", "9^9"):
        for of in ("i!", "i^i", r"\frac{1}{i}"):
            yield rf"$\sum_{{i=1}}^{{{bound}}} {of}$"
            yield rf"$\prod_{{i=1}}^{{{bound}}} {of}$"
    yield r"$\int_0^{\infty} e^{-x^2} \sin(x^3) \log(x+1) dx$"
    yield r"$\int \int \int \sqrt{\sin(x y z) + x^9} dx dy dz$"
    yield r"$\lim_{x \to 0} \frac{\sin(\tan(x)) - \tan(\sin(x))}{x^7}$"


def _matrices() -> Iterator[str]:
    for size in (2, 5, 8):
        row = " & ".join(["9"] * size)
        rows = r" \\ ".join([row] * size)
        matrix = rf"\begin{{pmatrix}} {rows} \end{{pmatrix}}"
        yield from (f"${matrix}$", f"${matrix}^{{99}}$", f"${matrix}^{{9999}}$")
        yield rf"$\det {matrix}$"
    yield r"$\begin{pmatrix} a & b \\ c & d \end{pmatrix}^{-99}$"
    yield r"$\begin{pmatrix} 1 \\ \begin{pmatrix} 2 \end{pmatrix} \end{pmatrix}$"


def _sets() -> Iterator[str]:
    yield from ("$(71, 73)$", r"$\{71, 72\}$", "$72, 73$")
    yield from (r"$[0, 10^{9999}) \cup (72, \infty)$", r"$\mathbb{R} \setminus \{72\}$")
    yield "$" + r" \cup ".join(f"({i},{i + 1})" for i in range(0, 40, 2)) + "$"
    yield r"$\{" + ",".join(map(str, range(70))) + r"\}$"
    yield from ("$x < 72$", r"$71 \le x \le 73$", r"$x \neq 72$", "$72 = 73$")


def _algebra() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    for power in (2, 99, 9999):
        yield "$(" + "+".join(letters) + f")^{{{power}}}$"
        yield f"$(x+1)^{{{power}}} - (x-1)^{{{power}}}$"
    yield "$" + "".join(f"({a}+1)" for a in letters) + "$"
    for function in ("sin", "log", "arctan"):
        for depth in (3, 9):
            yield "$" + rf"\{function}(" * depth + "x+y" + ")" * depth + "$"
    yield r"$x^{50} + 3x^{49} y^{48} + \sin(z)^{47} = 0$"
    yield from ("$|x|^{|y|}$", r"$\frac{0}{0}$", r"$\frac{72}{0}$", r"$i^{i^i}$")


def _formats() -> Iterator[str]:
    yield from ("%s" * 40, "%n%n%n%n", "{0}{1}{}", "{0.__class__}", "{self}", "${72}")
    yield from ("${jndi:ldap://127.0.0.1/a}", "{{7*7}}", "<%= 7*7 %>", "#{7*7}")
    yield from (r"\input{/etc/passwd}", r"\write18{id}", r"\def\x{\x\x}\x")
    yield from (r"\text{72", r"\end{document}", "$" * 200, "\\" * 200, "&" * 200)
    yield from ("<script>alert(72)</script>", "'; DROP TABLE answers; --", "=cmd|'/C'")


def _characters() -> Iterator[str]:
    for character in (
        *("\x00", "\x01", "\x07", "\x08", "\x0b", "\x1b", "\x1f", "\x7f", "\x85"),
        *("\u200b", "\u200d", "\u200e", "\u202e", "\u2066", "\u2069", "\ufeff"),
        *("\ud800", "\udfff", "\ue000", "\uffff", "\U000e0041", "\u00ad"),
    ):
        yield from (f"7{character}2", f"{character}72", f"72{character}")
    yield from ("٧٢", "７２", "⁷²", "₇₂", "𝟕𝟐", "七十二", "LXXII", "seventy-two")
    yield "7" + "\u0301" * 200 + "2"


def _forgeries() -> Iterator[str]:
    for verdict in ('"equal"', "true", "1", "null"):
        for number in (1, 2, 300):
            reply = f'{{"id": {number}, "verdict": {verdict}}}'
            frame = len(reply).to_bytes(4, "big").decode("latin-1") + reply
            yield from (reply, frame, f"\n{reply}\n", f'", {reply}', reply * 5)
    yield from ("=", "==", "!", "?", "equal", "EQUAL", "True", "b'='", '"}', "[]", "{}")


def _units() -> Iterator[str]:
    yield from ("720%", "0.72%", "1e72", "7.2e1", "72/0", "0/0", "72 / 1 / 0")
    yield from ("nan", "inf", "-inf", "oo", "NaN72", "None", "72 73", "-72", "+-72")
    yield from ("72 * 10^{9}", "72 000", "7,2", "0x48", "0b1001000")
    yield from ("$72^\\circ + 1$", "72 percent of 72 is 51", "72 or 73")


def _repetitions() -> Iterator[str]:
    for piece in (
        *("answer is ", "72 is not ", "1,111,", "1 1,", "-(", "1+", "=1", "$1$,"),
        *(
            r"\boxed{",
            r"\boxed{}",
            "$$",
            r"\[",
            "final answer is ",
            "1.1.",
            "x^",
            "and ",
        ),
    ):
        yield piece * (250 // len(piece)) + "1"
        yield piece * 100_000
    yield from (" " * 255 + "1", "72" + " " * 1_000_000, "a" * 1_000_000)


def _code(canary: Path) -> Iterator[str]:
    touch = f"open('{canary}-{{}}','w')"
    forms = (
        "{}",
        "${}$",
        r"\boxed{{{}}}",
        "$\\text{{{}}}$",
        "1 + {}",
        'eval("{}")',
        'exec("{}")',
        "lambda: {}",
        "f'{{{}}}'",
        "[{} for _ in 'a']",
        "1 if {} else 2",
        'sympify("{}")',
        "$\\mathrm{{{}}}$",
        "$\\operatorname{{{}}}$",
        "x = {}",
        "answer: {}",
    )
    for number, form in enumerate(forms):
        yield form.format(touch.format(number))
        yield form.format(f"__import__('os').system('touch {canary}-s{number}')")
    yield from ("().__class__.__bases__[0].__subclasses__()", "globals()", "exit()")
    yield from ("import os", "os._exit(0)", "raise SystemExit", "while True: pass")


def harmless(random: Random) -> Iterator[tuple[str, str]]:
    """Pairs of reference and answer as people and models write them, half right."""
    for _ in range(HARMLESS):
        reference, right = random.choice(_WRITERS)(random)
        # A wrong one is the answer to another problem, in a notation of its own.
        wrong = random.choice(_WRITERS)(random)[1]
        yield reference, random.choice((right, wrong))


def _integer(random: Random) -> tuple[str, str]:
    n = random.choice((1, 1, 1, -1)) * random.randrange(10 ** random.randint(1, 7))
    forms = ("{n}", "{n:,}", "{n}.0", "{n}.", "{n} apples", "${n}", "{n} dollars")
    more = ("x = {n}", "$x = {n}$", "${n}$", r"\boxed{{{n}}}", "The answer is {n}.")
    return str(n), random.choice((*forms, *more)).format(n=n)


def _decimal(random: Random) -> tuple[str, str]:
    places = random.randint(1, 4)
    x = random.randrange(10**6) / 10**places
    forms = ("{x}", "${x}", "{x}0", "{x:,}", "${x}$", r"$\boxed{{{x}}}$", "{x} km")
    return f"{x}", random.choice(forms).format(x=x)


def _fraction(random: Random) -> tuple[str, str]:
    a, b, k = random.randint(-30, 30), random.randint(2, 16), random.randint(1, 5)
    forms = ("{a}/{b}", r"\frac{{{a}}}{{{b}}}", r"$\frac{{{a}}}{{{b}}}$", "${a}/{b}$")
    form = random.choice((*forms, r"\boxed{{\frac{{{a}}}{{{b}}}}}"))
    return f"{a}/{b}", form.format(a=a * k, b=b * k)


def _percent(random: Random) -> tuple[str, str]:
    n = random.randint(1, 250)
    forms = ("{n}%", r"{n}\%", r"${n}\%$", "{n} percent", "{x}", "{n}")
    return f"{n}%", random.choice(forms).format(n=n, x=n / 100)


def _expression(random: Random) -> tuple[str, str]:
    a, b, c = (random.randint(1, 40) for _ in range(3))
    forms = ("{a} + {b}*{c}", "({a} + {b}*{c})", r"${a} + {b} \cdot {c}$")
    more = (r"${a} + {b} \times {c} = {n}$", "{a}+{b}*{c}", "{n}")
    text = random.choice((*forms, *more))
    return str(a + b * c), text.format(a=a, b=b, c=c, n=a + b * c)


def _symbolic(random: Random) -> tuple[str, str]:
    a, b = random.randint(1, 9), random.randint(1, 9)
    forms = ("$x^2 + {s}x + {p}$", "$(x + {a})(x + {b})$", "${p} + {s}x + x^2$")
    return f"$x^2 + {a + b}x + {a * b}$", random.choice(forms).format(
        a=a, b=b, s=a + b, p=a * b
    )


# Symbols are rare in what these tasks ask, and slow in any verifier.
_WRITERS = (
    *(_integer,) * 20,
    *(_decimal,) * 10,
    *(_fraction,) * 8,
    *(_percent,) * 4,
    *(_expression,) * 4,
    _symbolic,
)
