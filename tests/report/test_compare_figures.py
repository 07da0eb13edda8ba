from dataclasses import replace
from math import hypot, nan

import numpy as np
import pytest

from benchmarks.report.synthetic import KINDS, write
from benchmarks.report.synthetic_comparison import KNOWN, Shape, comparison
from entrometer.report import draw
from entrometer.report.compare.agreement import agreement, agreements, predicted
from entrometer.report.compare.agreement import gains as held_out_gains
from entrometer.report.compare.frontier import frontier
from entrometer.report.compare.gains import distance_to_frontier, gains
from entrometer.report.compare.points import points
from entrometer.report.read import read_runs
from entrometer.report.style import style
from tests.report.toy import SUMMARY

SMALL = Shape(names=KNOWN[:5], idle=("clip-higher",))


@pytest.fixture(scope="module")
def made():
    return comparison(SMALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory, made):
    return write(tmp_path_factory.mktemp("run") / "run", made, SUMMARY, {"seed": 0})


@pytest.fixture
def read(tmp_path):
    def make(made):
        return read_runs([write(tmp_path / "run", made, SUMMARY)], KINDS)

    return make


def test_what_pulls_as_plain_does_is_named_and_not_drawn(run):
    plot = frontier(read_runs([run], KINDS))
    assert plot.caption.endswith(
        "equal plain for every token: clip-higher (at minibatch 1/1)."
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
    (line,) = [x for x in ax.lines if x.get_label() == "intervention, observed"]
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
    assert "intervention, predicted" in labels
    assert "intervention, observed" not in labels


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
    assert names[0] == "plain"
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
        f"Of {len(cases)} cases, one intervention at one minibatch each, {more} keep"
    )
    assert f" and {less} keep less entropy." in told
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


def test_a_comparison_without_a_frontier_is_drawn(read, made):
    runs = read(replace(made, frontier=[]))
    with style():
        ax = frontier(runs).draw().axes[0]
    assert not any("frontier" in str(line.get_label()) for line in ax.lines)


def test_two_comparisons_are_told_apart(tmp_path, made):
    runs = [write(tmp_path / n, made, SUMMARY) for n in ("one", "two")]
    assert {p.name for p in points(read_runs(runs, KINDS))} == {
        *("one, 1/1", "one, 2/2", "two, 1/1", "two, 2/2"),
    }


def test_an_axis_is_not_ruled_by_a_wide_interval():
    marked = np.array([0.0, 1.0, nan])
    low, high = draw.axis_ends(marked, np.array([-100.0, 1.2, nan]))
    assert low == pytest.approx(-0.5 - 0.06 * 1.7)
    assert high == pytest.approx(1.2 + 0.06 * 1.7)
    alone = draw.axis_ends(np.array([2.0]), np.array([1.0, 3.0]))
    assert alone[0] < 1.0
    assert alone[1] > 3.0
