"""Hostile text in a report: no script, no request, every character as it was."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Check, Report
from benchmarks.report import influence
from benchmarks.report.chromium import Opened, open_page
from benchmarks.report.hostile import ACTIVE, hostile_texts
from benchmarks.report.synthetic import KINDS, Shape, measurement, write
from entrometer.report import write_report
from entrometer.runs.tables.measure import MeasureTables, Sample

TOKENS = 100_000
POLICY = (
    "<meta http-equiv=Content-Security-Policy "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
TEXTS = """(() => {
  const all = (css) => [...document.querySelectorAll(css)].map((x) => x.textContent);
  return {
    title: document.title, heading: all('.kind'), sentences: all('.sentence'),
    warnings: all('.warning'), names: all('.w'),
    values: [...document.querySelector('.pairs').querySelectorAll('td')]
      .map((x) => x.textContent),
    checkpoints: all('summary bdi'), prompts: all('.prompt'),
    responses: all('.response'),
    tags: [...new Set([...document.querySelectorAll('*')].map((x) => x.localName))],
    handlers: [...document.querySelectorAll('*')].flatMap((x) => [...x.attributes])
      .filter((a) => a.name.startsWith('on')).length,
    links: [...document.querySelectorAll('a')].map((x) => x.getAttribute('href'))
      .filter((x) => !x.startsWith('#')).length,
  };
})()"""
FOREIGN = {
    *("audio", "base", "embed", "form", "iframe", "img", "input", "math", "object"),
    *("picture", "script", "select", "template", "textarea", "video"),
}


def run() -> Report:
    texts = hostile_texts()
    with tempfile.TemporaryDirectory() as folder:
        made, summary, config = hostile_run(texts)
        run_ = write(Path(folder, "run"), made, summary, config)
        page = write_report([run_], Path(folder, "report.html"), KINDS)
        opened = open_page(page, TEXTS)
        bare = _control(Path(folder, "bare.html"), "")
        walled = _control(Path(folder, "walled.html"), POLICY)
        size = page.stat().st_size
        again = write_report([run_], Path(folder, "again.html"), KINDS)
        differ = page.read_bytes() != again.read_bytes()
        of_tokens, told = influence.checks(Path(folder), texts)
    wrong = altered(opened.answer, made, summary, config)
    tokens = sum(s.tokens for s in made.samples)
    shown = len(opened.answer["responses"])
    tags = FOREIGN & set(opened.answer["tags"])
    return Report(
        [
            Check("report.hostile_texts", len(texts), at_least=200),
            Check("report.scripts_run", opened.scripts, at_most=0),
            Check("report.console_messages", len(opened.messages), at_most=0),
            Check("report.requests", len(opened.requests), at_most=0),
            Check("report.navigations", opened.navigations, at_least=1, at_most=1),
            Check("report.foreign_elements", len(tags), at_most=0),
            Check("report.event_handlers", opened.answer["handlers"], at_most=0),
            Check("report.links_out", opened.answer["links"], at_most=0),
            Check("report.altered_texts", len(wrong), at_most=0),
            Check("report.sample_tokens", tokens, at_least=TOKENS),
            Check("report.samples_left_out", len(made.samples) - shown, at_most=0),
            Check("report.megabytes", size / 1e6, at_most=5),
            Check("report.differs_when_written_again", differ, at_most=0),
            # A detector that sees nothing would pass all of the above.
            Check("report.control.scripts_run", bare.scripts, at_least=12),
            Check("report.control.console_messages", len(bare.messages), at_least=12),
            Check("report.control.requests", len(bare.requests), at_least=12),
            # And the policy would hold if an escape were forgotten.
            Check("report.policy_alone.messages", len(walled.messages), at_most=0),
            *of_tokens,
        ],
        {
            "altered": wrong[:5],
            "active_texts": len(ACTIVE),
            "texts_compared": sum(map(len, _places(made, summary, config).values())),
            **told,
        },
    )


def hostile_run(
    texts: list[str],
) -> tuple[MeasureTables, dict[str, Any], dict[str, Any]]:
    """A measurement in which whatever can be text is hostile."""
    # Parquet is UTF-8: half a surrogate pair can come by JSON only.
    whole = [t for t in texts if t.isascii() or t.encode(errors="ignore").decode() == t]
    names = [t for t in whole if len(t) <= 200]
    plain = measurement(
        Shape(checkpoints=("",), updates=("",), etas=(1e-5, 3e-4), prompts=64)
    )
    made = MeasureTables([], [], [], [], [], [], _samples(whole))
    pairs = zip(names[::2], [*names[1::2], ""], strict=False)
    for number, (checkpoint, update) in enumerate(pairs):
        who = {"checkpoint": checkpoint, "update": update}
        for name in ("changes", "terms", "variances", "needed", "errors"):
            rows = getattr(plain, name)
            # The first has every way to weigh; of the others the default is enough.
            kept = rows if number == 0 else [r for r in rows if _is_default(r)]
            getattr(made, name).extend(replace(r, **who) for r in kept)
        made.convergence.extend(
            replace(r, checkpoint=checkpoint, estimator=update)
            for r in plain.convergence[:2]
        )
    summary = {"title": texts[0], "sentences": texts, "warnings": texts[::-1]}
    config: dict[str, Any] = {f"{i}": text for i, text in enumerate(texts)}
    config |= {"names": dict.fromkeys(filter(None, texts), "")}
    return made, summary, config


def altered(
    answer: dict[str, Any],
    made: MeasureTables,
    summary: dict[str, Any],
    config: dict[str, Any],
) -> list[str]:
    """Texts that the page does not have, character by character, where they belong."""
    wrong = []
    for place, texts in _places(made, summary, config).items():
        there = answer[place]
        if place == "names":
            here = set(there)
            wrong += [f"{place}: {t!r}" for t in texts if carried(t) not in here]
            continue
        wrong += [
            f"{place}: {expected!r} is {got!r}"
            for expected, got in zip(map(carried, texts), there, strict=False)
            if expected != got
        ]
        wrong += [f"{place}: {len(there)} for {len(texts)}"] * (
            len(there) != len(texts)
        )
    return wrong


def carried(text: str) -> str:
    """What HTML can carry, said anew: NUL and half a pair have no place in it."""
    return "".join(
        "\u2400" if c == "\0" else "\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c
        for c in text
    )


def _places(
    made: MeasureTables, summary: dict[str, Any], config: dict[str, Any]
) -> dict[str, list[str]]:
    return {
        "heading": [summary["title"]],
        "sentences": summary["sentences"],
        "warnings": summary["warnings"],
        "prompts": [s.prompt_text for s in made.samples],
        "responses": [s.response_text for s in made.samples],
        "checkpoints": list(dict.fromkeys(s.checkpoint for s in made.samples)),
        "names": [
            *(t.checkpoint for t in made.terms),
            *(t.update for t in made.terms),
            *(f"names.{name}" for name in config["names"]),
            *(r.estimator for r in made.convergence),
        ],
        "values": [*list(config.values())[:-1], *config["names"].values()],
    }


def _samples(texts: list[str]) -> list[Sample]:
    hostile = [(t, texts[-1 - i], 20) for i, t in enumerate(texts)]
    ordinary = [(f"Problem {i}?", "word " * 500, 500) for i in range(TOKENS // 500)]
    return [
        Sample(
            checkpoint=texts[0],
            prompt=i,
            prompt_text=prompt,
            response_text=response,
            tokens=tokens,
            entropy=0.4,
            surprisal=0.4,
            reward=1.0,
        )
        for i, (prompt, response, tokens) in enumerate([*hostile, *ordinary])
    ]


def _is_default(row: Any) -> bool:
    weighting = getattr(row, "weighting", "per_decision")
    return weighting == "per_decision" and getattr(row, "per", "token") == "token"


def _control(path: Path, head: str) -> Opened:
    """The same texts in a page that does not escape them."""
    body = "\n".join(f"<div>{text}</div>" for text in ACTIVE)
    path.write_text(f"<!doctype html>{head}{body}", encoding="utf-8")
    return open_page(path, "document.title")
