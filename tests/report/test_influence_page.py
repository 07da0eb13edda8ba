import base64
import hashlib
import math
import re
from dataclasses import fields, replace
from itertools import pairwise
from math import nan

import pytest

from benchmarks.report.chromium import ChromiumMissing, find_chromium, open_page
from benchmarks.report.synthetic import KINDS, write
from benchmarks.report.synthetic_influence import Shape, influence
from benchmarks.report.synthetic_kernel import Shape as KernelShape
from benchmarks.report.synthetic_kernel import kernel
from entrometer.report import write_figures, write_report
from entrometer.report.influence.token_map import INFLUENCE, LENGTH
from entrometer.report.influence.tokens import (
    context,
    draining_responses,
    draining_tokens,
)
from entrometer.report.influence.updates import influences
from entrometer.report.read import read_runs
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.influence import InfluenceTables
from entrometer.runs.tables.kernel import KernelTables
from tests.report.test_pack import unpack
from tests.report.test_page import Page
from tests.report.toy import SUMMARY

SMALL = Shape(checkpoints=("checkpoint-8",), responses=12, per_prompt=4, length=6)
LITTLE = KernelShape(checkpoints=("checkpoint-8",), responses=8, elements=20)
INFLUENCE_FIGURES = {
    *("scatter", "balance", "groups", "scores", "removals", "diagonals"),
}
KERNEL_FIGURES = {"kernel-blocks", "spectrum", "elements", "held-out", "sketches"}
ROW = re.compile(
    r"<p class=facts>Response (\d+):.*?</p><p class=t tabindex=0 [^>]*"
    r'data-v="([^"]*)">(.*?)</p>',
    re.DOTALL,
)


@pytest.fixture(scope="module")
def made():
    return influence(SMALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory, made):
    return write(tmp_path_factory.mktemp("run") / "run", made, SUMMARY, {"seed": 0})


@pytest.fixture(scope="module")
def page(tmp_path_factory, run):
    return Page(
        write_report([run], tmp_path_factory.mktemp("page") / "report.html", KINDS)
    )


@pytest.fixture
def report(tmp_path):
    def make(*tables):
        runs = [
            write(tmp_path / f"run-{i}", made, SUMMARY, {})
            for i, made in enumerate(tables)
        ]
        return Page(write_report(runs, tmp_path / "report.html", KINDS))

    return make


def test_a_page_of_influence_has_its_figures_tables_and_tokens(page, made):
    assert set(page.ids) >= INFLUENCE_FIGURES | {"tokens", "find"}
    assert page.count("svg") == 2 * len(INFLUENCE_FIGURES)
    rows = ROW.findall(page.raw)
    assert len(rows) == 12
    for number, _, body in rows:
        tokens = [t.text for t in made.tokens if t.response == int(number)]
        found = re.findall(r"<([bu]) class=\w+>(.*?)</\1>", body, re.DOTALL)
        assert [text for _, text in found] == [
            t.replace("<", "&lt;").replace(">", "&gt;") for t in tokens
        ]


def test_value_and_error_of_every_token_can_be_reached_by_the_keyboard(page, made):
    for number, packed, _ in ROW.findall(page.raw):
        tokens = [t for t in made.tokens if t.response == int(number)]
        assert len(packed) == LENGTH * len(tokens)
        for i, token in enumerate(tokens):
            told = unpack(packed[i * LENGTH : i * LENGTH + 3], INFLUENCE)
            assert told == float(f"{3e-4 * token.entropy:.2e}")
    roles = [a.get("role") for _, a in page.attributes if a.get("id") == "told"]
    assert roles == ["status"]


def test_only_the_script_of_the_page_may_run(page):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page.raw)
    (script,) = re.findall(r"<script>(.*?)</script>", page.raw, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert f"; script-src 'sha256-{digest}';" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    for sink in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval"):
        assert sink not in script


def test_a_page_without_tokens_has_no_script(report):
    page = report(kernel(LITTLE))
    assert "script" not in page.tags
    assert "script-src" not in page.raw
    assert set(page.ids) >= KERNEL_FIGURES


def test_kinds_are_shown_together(report, made):
    page = report(made, kernel(LITTLE))
    assert set(page.ids) >= INFLUENCE_FIGURES | KERNEL_FIGURES
    assert len(page.ids) == len(set(page.ids))
    assert "2 runs compared" in page.text
    levels = [int(t[1]) for t in page.tags if re.fullmatch("h[1-6]", t)]
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_the_same_run_gives_the_same_bytes(page, run, tmp_path):
    assert Page(write_report([run], tmp_path / "again.html", KINDS)).raw == page.raw


def test_hostile_tokens_are_text(report, made):
    evil = "</b></p><script>alert(1)</script>"
    tables = replace(
        made,
        tokens=[replace(t, text=evil, kind=evil) for t in made.tokens],
        responses=[replace(r, text=evil, prompt_text=evil) for r in made.responses],
        groups=[replace(g, name=evil) for g in made.groups if g.by == "kind"],
        scores=[replace(s, score=evil, target=evil, level=evil) for s in made.scores],
        removals=[replace(r, by=evil) for r in made.removals],
        diagonals=[replace(d, block=evil) for d in made.diagonals],
    )
    page = report(tables)
    assert page.count("script") == 1
    # Each token, and the words for the most draining ones and for the extreme ones.
    assert page.text.count(evil) >= len(made.tokens)


def test_what_was_not_measured_is_a_dash(report, made):
    def unmeasured(row):
        missing = {f.name: nan for f in fields(row) if f.type is float}
        return replace(row, **missing)

    tables = InfluenceTables(
        **{
            name: [unmeasured(r) for r in getattr(made, name)]
            for name in table_classes(InfluenceTables)
        }
    )
    page = report(tables)
    assert "tokens" in page.ids
    assert "Not measured here" in page.text


@pytest.mark.parametrize("kind", [InfluenceTables, KernelTables])
def test_empty_tables_make_a_page(report, kind):
    page = report(kind(*([[]] * 7)))
    assert "Not measured here" in page.text
    assert page.count("svg") == 0


def test_figures_are_files_for_papers(run, tmp_path):
    paths = write_figures(run, tmp_path / "figures", ("svg",), KINDS)
    assert {p.stem for p in paths} == INFLUENCE_FIGURES
    other = write(tmp_path / "kernel", kernel(LITTLE), SUMMARY, {})
    paths = write_figures(other, tmp_path / "kernels", ("svg",), KINDS)
    assert {p.stem for p in paths} == KERNEL_FIGURES


def test_the_most_draining_tokens_come_first_at_the_rate_of_training(run, made):
    runs = read_runs([run], KINDS)
    listed = draining_tokens(runs)
    lowest = min(made.tokens, key=lambda t: t.entropy)
    assert f"[{lowest.text}]" in listed.rows[0][0]
    place = f"{lowest.response}, {lowest.position + 1}"
    assert listed.rows[0][1] == place
    drained = math.fsum(t.entropy for t in made.tokens if t.entropy < 0)
    share = float(listed.rows[0][3].rstrip("%"))
    assert share == pytest.approx(100 * lowest.entropy / drained, rel=0.05)
    worst = min(
        (g for g in made.groups if (g.by, g.objective) == ("response", "entropy")),
        key=lambda g: g.value,
    )
    assert worst.name in draining_responses(runs).rows[0]


def test_a_token_stands_in_its_context(run):
    answer = influences(read_runs([run], KINDS)).updates[0].answers[0]
    texts = [t.text for t in answer.tokens]
    assert context(answer.tokens, 0).startswith(f"[{texts[0]}]{texts[1]}")
    assert context(answer.tokens, len(texts) - 1).endswith(f"{texts[-2]}[{texts[-1]}]")


@pytest.mark.slow
def test_a_hundred_thousand_tokens_are_less_than_five_megabytes(report):
    page = report(influence(replace(SMALL, responses=500, length=200)))
    assert len(page.raw.encode()) < 5_000_000
    shown = len(ROW.findall(page.raw))
    told = re.search(r"Shown are ([\d,]+) of 500 responses", page.raw)
    assert shown > 450
    assert shown == 500 or int(told[1]) == shown


@pytest.mark.slow
def test_chromium_says_token_value_and_error_by_the_keyboard(run, made, tmp_path):
    try:
        find_chromium()
    except ChromiumMissing as missing:
        pytest.skip(str(missing))
    page = write_report([run], tmp_path / "report.html", KINDS)
    opened = open_page(
        page,
        """(() => {
          const row = document.querySelector('.heat .t');
          row.focus();
          const key = { key: 'End', bubbles: true };
          row.dispatchEvent(new KeyboardEvent('keydown', key));
          return [row.previousElementSibling.textContent, row.getAttribute('role'),
            document.getElementById('told').textContent];
        })()""",
    )
    facts, role, told = opened.answer
    number = int(re.match(r"Response (\d+)", facts)[1])
    last = [t for t in made.tokens if t.response == number][-1]
    value, error = re.search(r"influence on entropy (\S+) ± ([^\s,]+)", told).groups()
    assert role == "listbox"
    assert told.startswith("token “<|im_end|>”, ")
    assert float(value.replace("−", "-")) == float(f"{3e-4 * last.entropy:.2e}")
    assert float(error) == float(f"{3e-4 * last.entropy_se:.1e}")
    assert (opened.scripts, opened.requests, opened.messages) == (1, [], [])


@pytest.mark.slow
def test_chromium_sorts_and_searches_responses(run, made, tmp_path):
    try:
        find_chromium()
    except ChromiumMissing as missing:
        pytest.skip(str(missing))
    page = write_report([run], tmp_path / "report.html", KINDS)
    opened = open_page(
        page,
        """(() => {
          const numbers = () => [...document.querySelectorAll('.r:not([hidden])')]
            .map((x) => Number(/Response (\\d+)/.exec(x.textContent)[1]));
          const before = numbers();
          document.querySelector('input[name=first][value="+2"]').click();
          const inOrder = numbers();
          document.querySelector('input[name=first][value="+0"]').click();
          const draining = numbers();
          const words = document.getElementById('words');
          const text = document.querySelector('.r .t').textContent.slice(0, 3);
          const lower = text.toLowerCase();
          words.value = text.toUpperCase();
          words.dispatchEvent(new Event('input', { bubbles: true }));
          const found = [...document.querySelectorAll('.r:not([hidden])')]
            .every((x) => x.parentElement.textContent.toLowerCase().includes(lower));
          const said = document.getElementById('hits').textContent;
          const marked = document.querySelectorAll('[data-hit]').length;
          words.value = '';
          words.dispatchEvent(new Event('input', { bubbles: true }));
          return [before, inOrder, draining, found, said, marked, numbers()];
        })()""",
    )
    before, in_order, draining, found, said, marked, after = opened.answer
    sums = {
        int(g.name): g.value
        for g in made.groups
        if (g.by, g.objective) == ("response", "entropy")
    }
    assert in_order == sorted(before)
    assert draining[0] == min(sums, key=sums.get)
    assert found
    assert marked > 0
    assert re.fullmatch(r"\d+ of 12 responses", said)
    assert after == draining
    assert (opened.scripts, opened.requests, opened.messages) == (1, [], [])
