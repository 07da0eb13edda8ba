import html
import json
import re
import time
from dataclasses import fields, replace
from itertools import pairwise
from math import hypot, nan

import numpy as np
import pytest

from benchmarks.report.chromium import ChromiumMissing, find_chromium, open_page
from benchmarks.report.synthetic import KINDS, write
from benchmarks.report.synthetic_comparison import KNOWN, Shape, comparison
from benchmarks.report.synthetic_kernel import Shape as KernelShape
from benchmarks.report.synthetic_kernel import kernel
from entrometer.errors import InvalidValue
from entrometer.report import write_figures, write_report
from entrometer.report.compare.agreement import agreement, agreements
from entrometer.report.compare.agreement import gains as held_out_gains
from entrometer.report.compare.axes import axis_ends
from entrometer.report.compare.distance_to_frontier import distance_to_frontier
from entrometer.report.compare.frontier import frontier
from entrometer.report.compare.gains import gains
from entrometer.report.compare.points import points
from entrometer.report.compare.predicted import predicted
from entrometer.report.read import read_runs
from entrometer.report.style import style
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.compare import CompareTables
from tests.report.test_page import Page
from tests.report.toy import SUMMARY

SMALL = Shape(names=KNOWN[:5], idle=("clip-higher",))
FIGURES = {"frontier", "gains", "predicted-observed", "below-frontier"}
MAKERS = (frontier, gains, predicted, distance_to_frontier)


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
def read(tmp_path):
    def make(made):
        return read_runs([write(tmp_path / "run", made, SUMMARY)], KINDS)

    return make


@pytest.fixture
def report(tmp_path):
    def make(made, **summary):
        run = write(tmp_path / "run", made, SUMMARY | summary)
        return Page(write_report([run], tmp_path / "report.html", KINDS))

    return make


def test_a_page_of_a_comparison_has_its_words_figures_and_tables(page):
    assert set(page.ids) >= FIGURES
    assert page.count("svg") == page.count("figcaption") == len(FIGURES)
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


def test_what_pulls_as_plain_does_is_named_and_not_drawn(run):
    plot = frontier(read_runs([run], KINDS))
    assert plot.caption.endswith(
        "as plain Dr-GRPO does: clip-higher (at minibatch 1/1)."
    )
    with style():
        first, second = plot.draw().axes
    names = [{text.get_text() for text in ax.texts} for ax in (first, second)]
    assert "clip-higher" not in names[0]
    assert "clip-higher" in names[1]
    assert names[0] >= {"entropy-bonus", "kl-cov", "clip-cov", "cispo"}


def test_every_remedy_and_price_is_in_the_table_of_the_frontier(run, made):
    rows = frontier(read_runs([run], KINDS)).table.rows
    told = {(row[0], row[1]) for row in rows}
    assert len(told) == len(rows) == len(made.outcomes) // 2 + 2 * len(made.frontier)
    assert {("minibatch 2/2", o.settings) for o in made.outcomes} <= told


def test_a_marker_is_where_the_step_was_observed(run, made):
    with style():
        ax = frontier(read_runs([run], KINDS)).draw().axes[1]
    (line,) = [x for x in ax.lines if x.get_label() == "remedy, observed"]
    drawn = set(zip(*line.get_data(), strict=True))
    tried = [o for o in made.outcomes if o.minibatch == "2/2" and o.tried][1:]
    tried = [o for o in tried if o.name != "dr-grpo"]
    seen = {(o.settings, o.objective): o.observed for o in tried}
    names = {o.settings for o in tried}
    assert drawn == {(seen[n, "entropy"], seen[n, "reward"]) for n in names}


def test_without_truth_predictions_are_drawn_open(read):
    runs = read(comparison(replace(SMALL, truth=False)))
    assert predicted(runs) is None
    assert agreements(runs) is None
    with style():
        ax = frontier(runs).draw().axes[1]
        gains(runs).draw()
    labels = {line.get_label() for line in ax.lines}
    assert "remedy, predicted" in labels
    assert "remedy, observed" not in labels


def test_remedies_are_sorted_by_what_they_keep_and_by_what_they_miss(run, made):
    rows = gains(read_runs([run], KINDS)).table.rows
    gain = {
        (o.minibatch, o.settings, o.objective): o.observed_gain for o in made.outcomes
    }
    for minibatch in ("1/1", "2/2"):
        own = [r[1] for r in rows if r[0] == f"minibatch {minibatch}"]
        values = [gain[minibatch, name, "entropy"] for name in own]
        assert values == sorted(values, reverse=True)
    with style():
        (ax,) = distance_to_frontier(read_runs([run], KINDS)).draw().axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names[0] == "plain Dr-GRPO"
    assert "frontier" not in names


def test_the_caption_counts_what_is_beyond_noise(read, made):
    cases = [
        o
        for o in made.outcomes
        if o.tried and o.changed and o.objective == "entropy" and o.name != "frontier"
    ]
    more = sum(o.observed_gain_low > 0 for o in cases)
    less = sum(o.observed_gain_high < 0 for o in cases)
    told = gains(read(made)).caption
    assert told.startswith(
        f"Of {len(cases)} cases, a remedy at a point each, {more} keep"
    )
    assert f" and {less} lose it." in told
    assert more
    assert less


def tried_remedies(made, objective):
    """Rows of the remedies that agreement is about, each with plain's at its point."""
    plain = {
        (o.minibatch, o.objective): o for o in made.outcomes if o.name == "dr-grpo"
    }
    return [
        (o, plain[o.minibatch, objective])
        for o in made.outcomes
        if o.tried
        and o.changed
        and o.objective == objective
        and o.name not in ("dr-grpo", "frontier")
    ]


@pytest.mark.parametrize("objective", ["entropy", "reward"])
def test_agreement_is_of_gains_predicted_by_the_half_that_does_not_observe(
    run, made, objective
):
    rows = tried_remedies(made, objective)
    p = np.array([row.elsewhere - plain.elsewhere for row, plain in rows])
    o = np.array([row.observed - plain.observed for row, plain in rows])
    within = [
        abs(p_ - o_) < 2 * hypot(row.gain_se, row.observed_gain_se)
        for p_, o_, (row, _) in zip(p, o, rows, strict=True)
    ]
    runs = read_runs([run], KINDS)
    got = agreement([g for x in points(runs) for g in held_out_gains(x, objective)])
    assert got.steps == got.judged == len(rows)
    assert got.r2 == pytest.approx(1 - np.square(o - p).sum() / (o @ o), rel=1e-9)
    assert got.within == sum(within)
    assert f"{got.within} of {got.judged}" in predicted(runs).caption
    assert [row[0] for row in agreements(runs).rows][-2:] == ["all", "all"]


def test_noise_of_prompts_that_both_sides_share_is_no_agreement(read):
    """Gains that are noise: equal on the same prompts, unrelated on the other half."""
    quiet = comparison(replace(SMALL, names=[f"remedy-{i}" for i in range(40)]))
    rng = np.random.default_rng(0)

    def noise(o):
        if o.name == "dr-grpo":
            return replace(o, predicted=0.0, elsewhere=0.0, observed=0.0)
        shared, other = rng.normal(size=2)
        return replace(
            o,
            **dict.fromkeys(("predicted", "gain", "observed", "observed_gain"), shared),
            elsewhere=other,
        )

    runs = read(replace(quiet, outcomes=[noise(o) for o in quiet.outcomes]))
    for objective in ("entropy", "reward"):
        some = [g for x in points(runs) for g in held_out_gains(x, objective)]
        # Two independent sets of the same variance: 1 - 2 / 1 in expectation.
        assert agreement(some).r2 == pytest.approx(-1.0, abs=0.6)


def test_figures_draw_predictions_of_the_half_that_does_not_observe(run, made):
    rows = tried_remedies(made, "entropy")
    other = {(o.minibatch, o.settings): o.elsewhere - p.elsewhere for o, p in rows}
    seen = {(o.minibatch, o.settings): o.observed_gain for o, _ in rows}
    with style():
        left = predicted(read_runs([run], KINDS)).draw().axes[0]
        hollow = gains(read_runs([run], KINDS)).draw().axes[0]
    drawn = [
        (line.get_label(), *pair)
        for line in left.lines
        if str(line.get_label()).startswith("minibatch")
        for pair in zip(*line.get_data(), strict=True)
    ]
    assert sorted(drawn) == sorted(
        (f"minibatch {key[0]}", seen[key], pytest.approx(other[key])) for key in other
    )
    opened = {
        round(float(x), 12)
        for line in hollow.lines
        if line.get_markerfacecolor() == "none"
        for x in line.get_xdata()
    }
    assert opened == {round(x, 12) for x in other.values()}


def test_a_prediction_far_off_is_not_within_noise(read, made):
    plain = {
        (o.minibatch, o.objective): o.elsewhere
        for o in made.outcomes
        if o.name == "dr-grpo"
    }
    wrong = [
        o
        if o.name == "dr-grpo"
        else replace(
            o,
            elsewhere=plain[o.minibatch, o.objective]
            + o.observed_gain
            + 5 * hypot(o.gain_se, o.observed_gain_se),
        )
        for o in made.outcomes
    ]
    runs = read(replace(made, outcomes=wrong))
    assert " in 0 of " in predicted(runs).caption
    assert {row[5] for row in predicted(runs).table.rows} == {"no"}


def test_a_prediction_without_an_error_is_not_judged(read, made):
    unknown = [replace(o, gain_low=nan, gain_high=nan) for o in made.outcomes]
    plot = predicted(read(replace(made, outcomes=unknown)))
    assert "within" not in plot.caption
    assert {row[5] for row in plot.table.rows} == {"–"}


def test_settings_elsewhere_are_code(page, made):
    tried = {o.settings for o in made.outcomes if o.tried}
    code = [html.unescape(x) for x in re.findall("<code>(.*?)</code>", page.raw)]
    for remedy in made.remedies:
        assert remedy.settings in code
        assert not remedy.verl or remedy.verl in code
    assert code.count('loss_type="dr_grpo", epsilon=0.2') == sum(
        bool(r.trl) for r in made.remedies
    )
    shown = page.raw.split('id="tables"')[1].split("<details>")[0]
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
    assert page.count("svg") == len(FIGURES)
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
    assert "Not measured here: frontier of reward and entropy, gain" in page.text


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
    assert page.count("svg") == len(FIGURES - absent)
    assert "nan" not in page.text


def test_a_comparison_without_a_frontier_is_drawn(read, made):
    runs = read(replace(made, frontier=[]))
    with style():
        ax = frontier(runs).draw().axes[0]
    assert not any("frontier" in str(line.get_label()) for line in ax.lines)


def test_kinds_are_shown_together(tmp_path, run):
    little = kernel(KernelShape(checkpoints=("checkpoint-8",), responses=8))
    other = write(tmp_path / "kernel", little, SUMMARY, {})
    page = Page(write_report([run, other], tmp_path / "report.html", KINDS))
    assert set(page.ids) >= FIGURES | {"spectrum"}
    assert len(page.ids) == len(set(page.ids))


def test_two_comparisons_are_told_apart(tmp_path, made):
    runs = [write(tmp_path / n, made, SUMMARY) for n in ("one", "two")]
    assert {p.name for p in points(read_runs(runs, KINDS))} == {
        *("one, 1/1", "one, 2/2", "two, 1/1", "two, 2/2"),
    }


def test_an_axis_is_not_ruled_by_a_wide_interval():
    marked = np.array([0.0, 1.0, nan])
    low, high = axis_ends(marked, np.array([-100.0, 1.2, nan]))
    assert low == pytest.approx(-0.5 - 0.06 * 1.7)
    assert high == pytest.approx(1.2 + 0.06 * 1.7)
    alone = axis_ends(np.array([2.0]), np.array([1.0, 3.0]))
    assert alone[0] < 1.0
    assert alone[1] > 3.0


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
    assert "Drawn are 4 of 8; the table has all." in page.read_text(encoding="utf-8")


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
