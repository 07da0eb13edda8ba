import html
import json
import re
import time
from dataclasses import fields, replace
from itertools import pairwise
from math import nan

import pytest

from benchmarks.report.chromium import ChromiumMissing, find_chromium, open_page
from benchmarks.report.synthetic import KINDS, write
from benchmarks.report.synthetic_comparison import KNOWN, Shape, comparison
from benchmarks.report.synthetic_kernel import Shape as KernelShape
from benchmarks.report.synthetic_kernel import kernel
from entrometer.errors import InvalidValue
from entrometer.report import write_figures, write_report
from entrometer.report.read import read_runs
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.compare import CompareTables
from tests.report.test_page import Page
from tests.report.toy import SUMMARY

SMALL = Shape(names=KNOWN[:5], idle=("clip-higher",))
FIGURES = {"frontier", "gains", "predicted-observed", "below-frontier"}


@pytest.fixture(scope="module")
def made():
    return comparison(SMALL)


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
    def make(made, **summary):
        run = write(tmp_path / "run", made, SUMMARY | summary)
        return Page(write_report([run], tmp_path / "report.html", KINDS))

    return make


def test_a_page_of_a_comparison_has_its_words_figures_and_tables(page):
    assert set(page.ids) >= FIGURES
    assert page.count("svg") == 2 * page.count("figcaption") == 2 * len(FIGURES)
    for words in (*SUMMARY["sentences"], *SUMMARY["warnings"]):
        assert words in page.text
    # One a figure, agreement, remedies at two strengths, settings, facts.
    assert page.count("table") == page.count("caption") == 4 + 1 + 2 + 2
    levels = [int(t[1]) for t in page.tags if re.fullmatch("h[1-6]", t)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert len(page.ids) == len(set(page.ids))
    assert "nan" not in page.text


def test_a_page_of_a_comparison_runs_nothing(page):
    assert "script" not in page.tags
    assert "script-src" not in page.raw
    assert not any("src" in a for _, a in page.attributes)


def test_the_manifest_says_that_a_run_is_a_comparison(tmp_path, run, made):
    (found,) = read_runs([run], KINDS)
    assert found.kind == "compare"
    assert repr(found.tables) == repr(made)
    other = write(tmp_path / "other", made, SUMMARY)
    (other / "results" / "frontier.parquet").unlink()
    with pytest.raises(InvalidValue, match=r"frontier\.parquet; finish it with"):
        read_runs([other], KINDS)


def test_the_same_run_gives_the_same_bytes(page, run, tmp_path):
    assert Page(write_report([run], tmp_path / "again.html", KINDS)).raw == page.raw


def test_figures_are_files_for_papers(run, tmp_path):
    paths = write_figures(run, tmp_path / "figures", ("svg",), KINDS)
    assert {p.stem for p in paths} == FIGURES


def test_settings_elsewhere_are_code(page, made):
    tried = {o.settings for o in made.outcomes if o.tried}
    code = [html.unescape(x) for x in re.findall("<code>(.*?)</code>", page.raw)]
    for remedy in made.remedies:
        assert remedy.settings in code
        assert not remedy.verl or remedy.verl in code
    assert code.count('loss_type="dr_grpo", epsilon=0.2') == sum(
        bool(r.trl) for r in made.remedies
    )
    shown = page.raw.split('id="compare-all-remedies-at-all-strengths"')[1]
    assert all(f"<code>{name}</code>" in shown for name in tried)


@pytest.mark.parametrize(
    "evil",
    [
        "</code></td><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>{{ 7*7 }}',
        "$\\frac{$",
        "_hidden\u202e\x1b[0m",
        "n" * 400,
        "",
    ],
)
def test_a_hostile_name_is_text(report, made, evil):
    outcomes = [
        replace(
            o,
            **dict.fromkeys(("checkpoint", "update", "minibatch", "name"), evil),
            settings=f"{evil}{o.settings}",
        )
        for o in made.outcomes
        if o.minibatch == "2/2"
    ]
    places = [
        replace(p, checkpoint=evil, update=evil, minibatch=evil) for p in made.frontier
    ]
    remedies = [
        replace(
            r,
            name=evil,
            settings=f"{evil}{r.settings}",
            source=evil,
            trl=evil,
            verl=evil,
        )
        for r in made.remedies
    ]
    tables = CompareTables(outcomes, places, remedies)
    page = report(tables, title=evil, sentences=[evil], warnings=[evil])
    assert not {"script", "img"} & set(page.tags)
    assert page.count("svg") == 2 * len(FIGURES)
    assert page.text.count(evil) >= 4 * len(remedies) or not evil
    assert not any(name.startswith("on") for _, a in page.attributes for name in a)


def test_what_was_not_measured_is_a_dash(report, made):
    def unmeasured(row):
        missing = {f.name: nan for f in fields(row) if f.type is float}
        return replace(row, **missing)

    tables = {
        name: [unmeasured(r) for r in getattr(made, name)]
        for name in table_classes(CompareTables)
    }
    page = report(CompareTables(**tables))
    assert page.count("svg") == 0
    assert "Not measured here: expected gains, gain over plain, frontier" in page.text


def test_empty_tables_make_a_page(report):
    page = report(CompareTables())
    assert page.count("svg") == 0
    assert "Not measured here" in page.text


@pytest.mark.parametrize(
    "shape",
    [
        replace(SMALL, minibatches=("1/1",), strengths=1),
        replace(SMALL, minibatches=("1/1",), names=KNOWN[:1], idle=()),
        replace(SMALL, checkpoints=("a", "b", "c"), updates=("recorded", "sampled-1")),
        replace(SMALL, minibatches=("1/1",), names=(), strengths=1),
    ],
    ids=["one strength", "one remedy", "many points", "plain alone"],
)
def test_every_shape_of_a_comparison_is_drawn(report, shape):
    page = report(comparison(shape))
    # Without a remedy there is no gain to predict.
    absent = set() if shape.names else {"predicted-observed"}
    assert FIGURES - set(page.ids) == absent
    assert page.count("svg") == 2 * len(FIGURES - absent)
    assert "nan" not in page.text


def test_kinds_are_shown_together(tmp_path, run):
    little = kernel(KernelShape(checkpoints=("checkpoint-8",), responses=8))
    other = write(tmp_path / "kernel", little, SUMMARY, {})
    page = Page(write_report([run, other], tmp_path / "report.html", KINDS))
    assert set(page.ids) >= FIGURES | {"spectrum"}
    assert len(page.ids) == len(set(page.ids))


def test_thirty_remedies_at_eight_points_are_drawn_in_seconds(tmp_path):
    names = [f"remedy-{i}" for i in range(30)]
    shape = Shape(
        checkpoints=("a", "b"), updates=("recorded", "sampled-1"), names=names
    )
    run = write(tmp_path / "run", comparison(shape), SUMMARY)
    start = time.process_time()
    page = write_report([run], tmp_path / "report.html", KINDS)
    assert time.process_time() - start < 20
    assert page.stat().st_size < 2_000_000
    assert "Drawn are 4 of 8 subjects, evenly" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_chromium_runs_nothing_of_a_hostile_comparison(tmp_path, made):
    try:
        find_chromium()
    except ChromiumMissing as missing:
        pytest.skip(str(missing))
    evil = "</code><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
    hostile = replace(
        made,
        outcomes=[replace(o, settings=evil + o.settings) for o in made.outcomes],
        remedies=[replace(r, settings=evil, trl=evil) for r in made.remedies],
    )
    run = write(tmp_path / "run", hostile, SUMMARY)
    opened = open_page(
        write_report([run], tmp_path / "report.html", KINDS),
        f"""[...document.querySelectorAll('.c code')].filter(
          code => code.textContent === {json.dumps(evil)}).length""",
    )
    assert (opened.scripts, opened.requests, opened.messages) == (0, [], [])
    assert opened.answer == 2 * len(set(hostile.remedies))
