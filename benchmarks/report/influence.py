"""Hostile text in the tokens of a report: no script but its own, and exact text."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Check
from benchmarks.report.chromium import open_page
from benchmarks.report.synthetic import KINDS, write
from benchmarks.report.synthetic_comparison import Shape as Compared
from benchmarks.report.synthetic_comparison import comparison
from benchmarks.report.synthetic_influence import Shape, influence
from benchmarks.report.synthetic_kernel import Shape as KernelShape
from benchmarks.report.synthetic_kernel import kernel
from entrometer import report
from entrometer.report import write_report
from entrometer.runs.tables.influence import InfluenceTables, Token

TOKENS = 100_000
OWN = (Path(report.__file__).parent / "influence" / "heat.js").read_text(
    encoding="utf-8"
)
TEXTS = """(() => {
  const all = (css) => [...document.querySelectorAll(css)].map((x) => x.textContent);
  const rows = [...document.querySelectorAll('.heat .t')];
  const told = document.getElementById('told');
  const walk = (row) => {
    row.focus();
    const said = [];
    for (const key of ['Home', ...Array(row.children.length - 1).fill('ArrowRight')]) {
      row.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      said.push(told.textContent);
    }
    return said;
  };
  return {
    left: all('.left').join(''), names: all('.w'), prompts: all('.heat .prompt'),
    rows: rows.map((x) => [x.previousElementSibling.textContent,
      [...x.children].map((y) => y.textContent)]),
    said: rows.slice(0, 9).map(walk),
    children: told.children.length + document.getElementById('tip').children.length,
    scripts: document.querySelectorAll('script').length,
    inputs: document.querySelectorAll('input').length,
    tags: [...new Set([...document.querySelectorAll('*')].map((x) => x.localName))],
    handlers: [...document.querySelectorAll('*')].flatMap((x) => [...x.attributes])
      .filter((a) => a.name.startsWith('on')).length,
    links: [...document.querySelectorAll('a')].map((x) => x.getAttribute('href'))
      .filter((x) => !x.startsWith('#')).length,
  };
})()"""
FOREIGN = {
    *("audio", "base", "embed", "form", "iframe", "img", "math", "object", "picture"),
    *("select", "template", "textarea", "video"),
}
_NUMBER = r"([−–\d.e-]+)(?: ± ([\d.e-]+))?"
_SAID = re.compile(
    rf"token “(.*)”, (\d+) of \d+, influence on entropy {_NUMBER}, influence on reward "
    rf"{_NUMBER}, probability [\d.e-]+, log-probability ([−–\d.e-]+), entropy "
    r"([−–\d.e-]+) nats, advantage [−–\d.e-]+",
    re.DOTALL,
)


@dataclass(frozen=True)
class Places:
    """What the page must say."""

    tokens: dict[int, list[Token]]
    prompts: set[str]
    names: set[str]


def checks(folder: Path, texts: list[str]) -> tuple[list[Check], dict[str, Any]]:
    """Figures of a page with the same texts in every table of the experiments."""
    # Parquet is UTF-8: half a surrogate pair can come by JSON only.
    whole = [t for t in texts if t.encode(errors="ignore").decode() == t]
    made, places = hostile_influence(whole)
    summary = {"title": texts[0], "sentences": texts[:20], "warnings": texts[:20]}
    run = write(folder / "influence", made, summary, {})
    names = [t for t in whole if 0 < len(t) <= 200]
    shape = KernelShape(checkpoints=names[:20], metrics=names[20:22], elements=20)
    other = write(folder / "kernel", kernel(shape), summary, {})
    remedies = write(
        folder / "comparison",
        comparison(Compared(checkpoints=names[:2], names=names[2:32])),
        summary,
        {},
    )
    # Alone, so that all of the room is its own.
    page = write_report([run], folder / "tokens.html", KINDS)
    both = write_report([run, other, remedies], folder / "both.html", KINDS)
    opened, together = (open_page(p, TEXTS, seconds=180) for p in (page, both))
    answer = opened.answer
    wrong = altered(answer, places)
    unsaid = misread(answer, places)
    every = sum(map(len, places.tokens.values()))
    missing = len(places.tokens) - len(answer["rows"])
    foreign = [s for o in (opened, together) for s in o.sources if s != OWN]
    name = "report.tokens."
    found = [
        Check(f"{name}foreign_scripts_run", len(foreign), at_most=0),
        Check(f"{name}scripts_run", opened.scripts, at_least=1, at_most=1),
        Check(f"{name}script_elements", answer["scripts"], at_least=1, at_most=1),
        Check(f"{name}input_elements", answer["inputs"], at_least=10, at_most=10),
        Check(
            f"{name}console_messages",
            len(opened.messages) + len(together.messages),
            at_most=0,
        ),
        Check(
            f"{name}requests", len(opened.requests) + len(together.requests), at_most=0
        ),
        Check(f"{name}foreign_elements", len(FOREIGN & set(answer["tags"])), at_most=0),
        Check(f"{name}elements_made_of_text", answer["children"], at_most=0),
        Check(f"{name}event_handlers", answer["handlers"], at_most=0),
        Check(f"{name}links_out", answer["links"], at_most=0),
        Check(f"{name}altered_texts", len(wrong), at_most=0),
        Check(f"{name}misread_by_keyboard", len(unsaid), at_most=0),
        Check(f"{name}tokens", every, at_least=TOKENS),
        Check(f"{name}left_out_unsaid", abs(_left_out(answer) - missing), at_most=0),
        Check(f"{name}megabytes", page.stat().st_size / 1e6, at_most=5),
        Check(f"{name}megabytes_of_two_runs", both.stat().st_size / 1e6, at_most=5),
    ]
    figures = {
        "tokens_altered": wrong[:5],
        "tokens_misread": unsaid[:5],
        "tokens_seconds_to_open": round(opened.seconds, 2),
        "tokens_shown": sum(len(own) for _, own in answer["rows"]),
        "tokens_said": sum(map(len, answer["said"])),
    }
    return found, figures


def hostile_influence(texts: list[str]) -> tuple[InfluenceTables, Places]:
    """A measurement of influence in which whatever can be text is hostile."""
    names = [t for t in texts if 0 < len(t) <= 200]
    shape = Shape(checkpoints=("",), responses=TOKENS // 30 + 40, per_prompt=8)
    made = influence(shape)
    # The first responses are of such tokens alone, and move entropy most.
    tokens = [
        replace(t, text=texts[i % len(texts)], entropy=30 * t.entropy)
        if t.response < 40
        else t
        for i, t in enumerate(made.tokens)
    ]
    responses = [
        replace(r, prompt_text=texts[r.group % len(texts)], text=texts[-1 - r.group])
        if r.response < 40
        else r
        for r in made.responses
    ]
    groups = [
        replace(g, by="kind", name=names[i % len(names)])
        for i, g in enumerate(g for g in made.groups if g.by != "response")
    ][: 2 * len(names)]
    hostile = InfluenceTables(
        tokens=tokens,
        responses=responses,
        balance=made.balance,
        groups=groups,
        scores=[
            replace(s, score=names[i], target=names[-1 - i], level=names[i // 2])
            for i, s in enumerate(made.scores[: len(names)])
        ],
        diagonals=[replace(d, block=names[i]) for i, d in enumerate(made.diagonals)],
        removals=[replace(r, by=names[i]) for i, r in enumerate(made.removals)],
    )
    rows: dict[int, list[Token]] = {}
    for token in tokens:
        rows.setdefault(token.response, []).append(token)
    told = {
        *(g.name for g in groups),
        *(x for s in hostile.scores for x in (s.score, s.target, s.level)),
        *(d.block for d in hostile.diagonals),
        *(r.by for r in hostile.removals),
    }
    return hostile, Places(rows, {r.prompt_text for r in responses}, told)


def altered(answer: dict[str, Any], places: Places) -> list[str]:
    """Texts that the page does not have, character by character, where they belong."""
    there = set(answer["names"])
    wrong = [f"name {t!r}" for t in places.names if _carried(t) not in there]
    prompts = set(map(_carried, places.prompts))
    wrong += [f"prompt {t!r}" for t in answer["prompts"] if t not in prompts]
    for facts, own in answer["rows"]:
        expected = [_carried(t.text) for t in places.tokens[_number(facts)]]
        if own != expected:
            wrong.append(f"tokens of {facts!r}")
    shown = {text for _, own in answer["rows"] for text in own}
    every = {_carried(t.text) for own in places.tokens.values() for t in own}
    return wrong + [f"token {t!r} is not shown" for t in every - shown]


def misread(answer: dict[str, Any], places: Places) -> list[str]:
    """Tokens of which the keyboard does not tell text, values and errors."""
    wrong = []
    for (facts, _), said in zip(answer["rows"], answer["said"], strict=False):
        own = places.tokens[_number(facts)]
        if len(own) != len(said):
            wrong.append(f"{facts}: {len(said)} told of {len(own)}")
        for place, (token, words) in enumerate(zip(own, said, strict=False), start=1):
            match = _SAID.fullmatch(words)
            expected = (
                *(token.entropy * 3e-4, token.entropy_se * 3e-4),
                *(token.reward * 3e-4, token.reward_se * 3e-4, token.S, token.H),
            )
            if not match or not (
                match[1] == _carried(token.text)
                and int(match[2]) == place
                and all(map(_agrees, match.groups()[2:], expected, (3, 2, 3, 2, 3, 3)))
            ):
                wrong.append(f"{words!r} for {token}")
    return wrong


def _agrees(text: str, value: float, digits: int) -> bool:
    rounded = float(f"{value:.{digits - 1}e}")
    said = float(text.replace("−", "-"))
    return said == (rounded if abs(value) >= 1e-5 or digits == 2 else said)


def _left_out(answer: dict[str, Any]) -> int:
    match = re.search(r"remaining ([\d,]+) did not fit", answer["left"])
    return int(match[1].replace(",", "")) if match else 0


def _number(facts: str) -> int:
    match = re.match(r"Response (\d+):", facts)
    return int(match[1]) if match else -1


def _carried(text: str) -> str:
    return text.replace("\0", "\u2400")
