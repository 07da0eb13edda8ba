"""Responses with coloured tokens: which ones have room, and their markup.

A token has six numbers, each of which would be about seven characters long. Three
digits with any exponent are packed into three characters of an attribute, and heat.js
unpacks them when a reader asks for them.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from entrometer.report.influence.colours import QUANTITIES, Scale, css, scales
from entrometer.report.influence.updates import (
    OBJECTIVES,
    Answer,
    InfluenceRun,
    Influences,
    Update,
    influences,
)
from entrometer.report.measure.samples import Prompt
from entrometer.report.numbers import number, reward_words, with_error
from entrometer.report.plot import grouped
from entrometer.report.text import shown

BUDGET = 4_100_000
"""Bytes of markup for the tokens of all updates of a page."""
_MOST = 0.75
"""Share of the budget for the most influential responses, if not all have room."""
ORDERS = {
    "": "size of the influence",
    "+0": "entropy drained",
    "-0": "entropy added",
    "-1": "reward added",
    "+2": "number in the batch",
}
"""Orders of responses: sign and place of the number in `data-k`, smallest first."""
_AROUND = 160
"""Bytes of markup around a prompt."""


@dataclass(frozen=True)
class Shown:
    """The responses of an update that have room on the page, as markup."""

    name: str
    facts: str
    left_out: str
    """How many responses are missing, and why; empty if none is."""
    prompts: tuple[Prompt, ...]
    bytes: int
    """Bytes of markup that they take."""


@dataclass(frozen=True)
class TokenMap:
    """Responses with coloured tokens, and the style and script that they share."""

    where: str
    """Which learning rate the influences are for."""
    scales: list[dict[str, Any]]
    """Key, name and unit of each quantity, and the letter and value of each colour."""
    css: Markup
    script: Markup
    digest: str
    """SHA-256 of the script: the page's policy lets only this script run."""
    orders: dict[str, str]
    """Orders of the responses: which number decides, with its sign, and words."""
    runs: dict[str, list[Shown]]
    """Updates by run."""
    has_context: bool
    """Whether a response has text that the policy did not write."""


def token_script() -> str:
    """Return the script of a page with coloured tokens, the same for all runs."""
    return (Path(__file__).parent / "heat.js").read_text(encoding="utf-8")


def token_map(runs: Sequence[InfluenceRun], runs_on_page: int) -> TokenMap | None:
    """Return the coloured tokens of the runs within their share of the page's size."""
    influence = influences(runs)
    if not influence.updates:
        return None
    script = token_script()
    units = influence.rates.units | {"S": "nats", "H": "nats"}
    return TokenMap(
        where=influence.rates.where,
        scales=[
            {
                "key": s.quantity.key,
                "name": s.quantity.name,
                "unit": units[s.quantity.key],
                "steps": [(letter, number(x, 2)) for letter, x in s.centres()],
            }
            for s in scales(influence)
        ],
        css=Markup(css()),
        orders=ORDERS,
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        runs=_token_runs(influence, BUDGET * len(runs) // runs_on_page),
        has_context=any(t.context for r in runs for t in r.tables.tokens),
    )


def _token_runs(influence: Influences, budget: int) -> dict[str, list[Shown]]:
    every = scales(influence)
    runs: dict[str, list[Shown]] = {}
    for place, update in enumerate(influence.updates):
        # Bytes that one update does not need are left to those after it.
        made = choose(update, every, budget // (len(influence.updates) - place))
        budget -= made.bytes
        runs.setdefault(update.subject.run, []).append(made)
    return runs


def choose(update: Update, scales: Sequence[Scale], budget: int) -> Shown:
    """Return the responses that fit into `budget` bytes, the most influential first."""
    ordered = sorted(update.answers, key=_size, reverse=True)
    most, left = _fill(ordered, update, scales, int(_MOST * budget))
    rest = [a for a in ordered if a.number not in most]
    # A fixed seed: the same run must give the same page.
    shuffled = np.random.default_rng(0).permutation(len(rest)).tolist()
    left += budget - int(_MOST * budget)
    known = {_key(a) for a in ordered if a.number in most}
    drawn, left = _fill((rest[i] for i in shuffled), update, scales, left, known)
    bodies = most | drawn
    prompts = grouped(
        (_key(a), bodies[a.number]) for a in ordered if a.number in bodies
    )
    tokens = sum(len(a.tokens) for a in update.answers)
    return Shown(
        name=update.name,
        facts=f"{len(update.answers):,} responses, {tokens:,} tokens",
        left_out=_left_out(update, len(most), len(drawn)),
        prompts=tuple(Prompt(*key, tuple(subset)) for key, subset in prompts.items()),
        bytes=budget - left,
    )


def _fill(
    answers: Iterable[Answer],
    update: Update,
    scales: Sequence[Scale],
    budget: int,
    known: Iterable[tuple[int, str]] = (),
) -> tuple[dict[int, Markup], int]:
    """Return the markup of responses that fit, each whole, and the bytes left."""
    made: dict[int, Markup] = {}
    prompts = set(known)
    for answer in answers:
        if at_least(answer) > budget:
            continue
        body = response(answer, update.rate, scales)
        cost = len(body.encode())
        if _key(answer) not in prompts:
            cost += _AROUND + len(shown(answer.prompt).encode())
        if cost <= budget:
            budget -= cost
            prompts.add(_key(answer))
            made[answer.number] = body
    return made, budget


def _key(answer: Answer) -> tuple[int, str]:
    return answer.group, answer.prompt


def _size(answer: Answer) -> float:
    value = abs(answer.influence["entropy"].value)
    return -1.0 if math.isnan(value) else value


def _left_out(update: Update, most: int, drawn: int) -> str:
    every = len(update.answers)
    if most + drawn == every:
        return ""
    return (
        f"Shown are {most + drawn:,} of {every:,} responses: {most:,} of those that "
        f"move entropy most, and {drawn:,} of the others at random. The remaining "
        f"{every - most - drawn:,} did not fit on this page; they are in"
    )


LETTERS = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in "\"&'<>")
"""Characters that an attribute can hold without escapes."""


@dataclass(frozen=True)
class Code:
    r"""Numbers $\pm m\,10^e$ with $10^{d-1} \le m < 10^d$, as a number to base 89.

    0 stands for a number that was not measured or is too large, 1 for zero and for a
    number that is too small.
    """

    length: int
    digits: int
    signs: int
    lowest: int
    """Smallest exponent."""

    @property
    def mantissas(self) -> int:
        """Number of values of $m$: those with `digits` digits."""
        return 9 * int(10 ** (self.digits - 1))

    @property
    def exponents(self) -> int:
        """Number of exponents that there is room for."""
        return (int(len(LETTERS) ** self.length) - 2) // (self.mantissas * self.signs)

    def write(self, x: float) -> str:
        """Return a number, rounded to `digits` digits, as `length` characters."""
        place = self._place(x)
        text = ""
        for _ in range(self.length):
            place, letter = divmod(place, len(LETTERS))
            text = LETTERS[letter] + text
        return text

    def _place(self, x: float) -> int:
        if not math.isfinite(x) or (x < 0 and self.signs == 1):
            return 0
        mantissa, _, exponent = f"{abs(x):.{self.digits - 1}e}".partition("e")
        power = int(exponent) - (self.digits - 1) - self.lowest
        if x == 0 or power < 0:
            return 1
        if power >= self.exponents:
            return 0
        m = int(mantissa.replace(".", "")) - self.mantissas // 9
        return 2 + ((x < 0) * self.mantissas + m) * self.exponents + power


INFLUENCE = Code(length=3, digits=3, signs=2, lowest=-195)
ERROR = Code(length=2, digits=2, signs=1, lowest=-60)
NATS = Code(length=2, digits=3, signs=1, lowest=-7)
CODES = (INFLUENCE, ERROR, INFLUENCE, ERROR, NATS, NATS)
"""Numbers of a token: influence on entropy and error, on reward and error, −S, H."""

LENGTH = sum(code.length for code in CODES)
_TOKEN = len("<b class=aaaa></b>") + LENGTH


def pack(rows: Sequence[Sequence[float]]) -> str:
    """Return the numbers of a response, one row per token, packed into one text."""
    return "".join(
        code.write(x) for row in rows for code, x in zip(CODES, row, strict=True)
    )


def at_least(answer: Answer) -> int:
    """Return the fewest bytes that the markup of a response can take."""
    return _TOKEN * len(answer.tokens)


def response(answer: Answer, rate: float, scales: Sequence[Scale]) -> Markup:
    """Return the markup of a response: a line of facts, and its tokens in colours."""
    tokens = answer.tokens
    influence = [(t.entropy, t.entropy_se, t.reward, t.reward_se) for t in tokens]
    policy = [(-t.S, t.H) for t in tokens]
    rows = np.concatenate([rate * np.array(influence), np.array(policy)], axis=1)
    columns = zip(scales, rows[:, [0, 2, 4, 5]].T, strict=True)
    coloured = map("".join, zip(*(s.classes(c) for s, c in columns), strict=True))
    pairs = zip(tokens, coloured, strict=True)
    body = "".join(context(t.context) + token(t.text, c) for t, c in pairs)
    # The packed numbers need no escape: see LETTERS.
    return Markup(
        f'<div class=r data-k="{_keys(answer)}"><p class=facts>{facts(answer)}</p>'
        f"<p class=t tabindex=0 role=group aria-label=Tokens "
        f'data-v="{pack(rows.tolist())}">{body}</p></div>\n'
    )


def _keys(answer: Answer) -> str:
    """Return what responses are ordered by: see `ORDERS`; the last is the advantage."""
    influence = (f"{answer.influence[o].value:.3g}" for o in OBJECTIVES)
    return " ".join([*influence, str(answer.number), f"{answer.advantage:.3g}"])


def token(text: str, codes: str) -> str:
    """Return a token's markup, with its colour letters; `<u>` if it has a newline."""
    tag = "u" if "\n" in text else "b"
    # A single letter could be a class of the page's style sheet.
    name = codes if len(codes) == len(QUANTITIES) else f"_{codes}"
    return f"<{tag} class={name}>{_shown(text)}</{tag}>"


def context(text: str) -> str:
    """Return the markup of text that the policy did not write; nothing for none."""
    # `<i>` is context to heat.js and heat.css: it has no colour and no numbers.
    return f"<i>{shown(text)}</i>" if text else ""


def facts(answer: Answer) -> str:
    """Return reward, advantage and influence of a response in words."""
    entropy, reward = (with_error(*answer.influence[o]) for o in OBJECTIVES)
    return (
        f"Response {answer.number}: {reward_words(answer.reward)}, advantage "
        f"{number(answer.advantage, 2)}; influence on entropy {entropy}, on reward "
        f"{reward}"
    )


@cache
def _shown(text: str) -> str:
    return str(shown(text))
