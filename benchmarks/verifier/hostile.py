"""Answers that attack the verifier: by time, memory, code, characters or forgery."""

from collections.abc import Iterator
from pathlib import Path


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
    yield from ("720%", "0.72%", "1e72", "7.2e2", "72/0", "0/0", "72 / 1 / 0")
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
