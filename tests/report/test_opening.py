"""The first screen of a page: name, answer, cards, and statements by subject."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.report.synthetic import KINDS, measurement
from benchmarks.report.synthetic_comparison import KNOWN, comparison
from benchmarks.report.synthetic_comparison import Shape as Compared
from benchmarks.report.synthetic_influence import Shape as Influenced
from benchmarks.report.synthetic_influence import influence
from benchmarks.report.synthetic_kernel import Shape as Kernels
from benchmarks.report.synthetic_kernel import kernel
from entrometer.errors import InvalidValue
from entrometer.report import PageParts, RunKind, evaluation, write_report
from entrometer.report.cards import direction, estimate_card, whole_percent
from entrometer.report.compare.answer import selected, settings_to_paste
from entrometer.report.compare.points import points
from entrometer.report.identity import run_facts, run_name, statements
from entrometer.report.kinds import Answer, Card, FinishedRun, Section, Snippet
from entrometer.report.measure.answer import answer
from entrometer.report.measure.change import calibration
from entrometer.report.numbers import Interval
from entrometer.report.read import read_runs
from entrometer.report.signal import momentum_share, signal_cards
from entrometer.report.style import NARROW, style
from entrometer.runs.tables.evaluation import Evaluated, EvaluationTables
from entrometer.runs.tables.signal import UpdateSignal
from tests.report.test_page import Page
from tests.report.toy import SMALL

STUDIES = Path(__file__).parents[2] / "studies"


def finished(tables, kind="measure", **other):
    about = {"config": {}, "about": {}} | other
    return FinishedRun(kind, "run", "A title", (), (), **about, tables=tables)


def signal(**other):
    columns = {"checkpoint": "checkpoint-8", "update": "recorded", "minibatch": "1/1"}
    numbers = {"groups": 8, "groups_with_signal": 5, "eta": 3e-4, "predicted": -0.01}
    ends = {"momentum_se": 1e-3, "momentum_low": -0.008, "momentum_high": -0.004}
    momentum = {"quantity": "entropy", "momentum": -0.006}
    return UpdateSignal(**columns | numbers | momentum | ends | other)


@pytest.mark.parametrize(
    ("estimate", "value", "ends"),
    [
        ((-0.0711, -0.101, -0.0412), "−0.071", "[−0.101, −0.041]"),
        ((0.021, 0.006, 0.036), "+0.0210", "[0.0060, 0.0360]"),
        ((-1.3e-6, -1.5e-6, -1.1e-6), "−1.30e-6", "[−1.50e-6, −1.10e-6]"),
        ((0.5, math.nan, math.nan), "+0.5", ""),
        ((0.0, 0.0, 0.0), "exactly 0", ""),
        ((math.nan,) * 3, "–", ""),
    ],
)
def test_a_card_rounds_its_value_by_its_interval(estimate, value, ends):
    card = estimate_card(Interval(*estimate), "nats", "a change")
    assert (card.value, card.interval) == (value, ends)


def test_shares_and_directions_are_words():
    assert [whole_percent(x) for x in (0.453, 0.001, -2.5, math.nan, 0.0)] == [
        *("45%", "under 1%", "−250%", "–", "0%")
    ]
    changes = [Interval(-1, -2, -0.5), Interval(1, 0.5, 2), Interval(0, -1, 1)]
    ways = ["falls", "rises", "may be unchanged"]
    assert [direction(change) for change in changes] == ways


def test_a_run_is_named_by_its_training_and_checkpoints():
    config = {"checkpoints": ["../twin/checkpoint-4"], "prompts": 128}
    config |= {"intervention": "dr-grpo", "precision": "float32"}
    run = finished(None, config=config, about={"date": "2026-11-20T10:00:00+00:00"})
    assert run_name(run) == "twin, checkpoint-4"
    assert run_facts(run) == (
        "run run · loss dr-grpo · 128 evaluation prompts · float32 · 2026-11-20"
    )
    about = run.about | {"losses": {"step-4": "TRL 1.16: loss_type=dapo"}}
    assert "TRL 1.16: loss_type=dapo · 128" in run_facts(replace(run, about=about))
    many = [f"twin/checkpoint-{step}" for step in (8, 16, 24, 32)]
    run = replace(run, config={"checkpoints": many})
    assert run_name(run) == "twin, checkpoint-8 to checkpoint-32 (4 checkpoints)"
    assert run_name(replace(run, config={"checkpoints": [1, None]})) == "run"


def test_the_subject_of_sentences_is_said_once():
    run = finished(measurement(SMALL))
    name = "checkpoint-8, recorded"
    texts = ["In all.", f"{name}: it falls.", f"{name}: more.", "other: no subject."]
    assert statements(run, texts) == [
        ("", ("In all.", "other: no subject.")),
        (name, ("It falls.", "More.")),
    ]


def test_a_batch_of_one_minibatch_is_one_subject():
    made = comparison(Compared(names=KNOWN[:2], minibatches=("1/1",)))
    first = made.outcomes[0]
    name = f"{first.checkpoint}, {first.update}"
    run = finished(made, "compare")
    texts = [f"{name}, 1/1: one.", f"{name}: two."]
    assert statements(run, texts) == [(name, ("One.", "Two."))]


@pytest.mark.parametrize(
    ("slope", "title"), [(-20.0, "lowers entropy by"), (20.0, "raises entropy by")]
)
def test_a_measurement_says_where_entropy_goes(slope, title):
    made = replace(measurement(replace(SMALL, slopes=(slope,))), signal=[signal()])
    found = answer(finished(made))
    assert title in found.title
    assert [card.label for card in found.cards][:2] == [
        "entropy change of the next step, observed",
        "entropy now",
    ]
    assert found.cards[-1].value == "5 of 8"
    assert ("half of that would be gone" in found.text) == (slope < 0)


def test_without_a_rate_near_the_trainings_the_slope_answers():
    found = answer(finished(measurement(replace(SMALL, etas=(1e-8,)))))
    assert "to first order" in found.text
    assert found.cards[0].label.endswith("to first order")


def test_several_updates_are_counted():
    shape = replace(SMALL, checkpoints=("a", "b", "c"), slopes=(-20.0, 20.0, -20.0))
    found = answer(finished(measurement(shape)))
    assert found.title == "the next step lowers entropy for 2 of 3 updates"


def test_momentum_has_a_share_only_if_the_parts_agree():
    assert momentum_share(signal()) == pytest.approx(0.6)
    assert math.isnan(momentum_share(signal(predicted=0.01)))
    assert math.isnan(momentum_share(signal(predicted=0.0)))
    assert len(signal_cards([signal()], eta=1.0)) == 1
    assert signal_cards([signal(), signal()]) == []


def test_every_kind_has_an_answer(tmp_path):
    influenced = influence(Influenced(checkpoints=("a",), responses=8, per_prompt=4))
    compared = comparison(Compared(names=KNOWN[:4], minibatches=("1/1",)))
    kernels = kernel(Kernels(checkpoints=("a",), responses=8))
    for name, tables in (
        ("influence", influenced),
        ("compare", compared),
        ("kernel", kernels),
    ):
        found = KINDS[name].parts().answer(finished(tables, name))
        assert found.title
        assert found.text.endswith(".")
        assert len(found.cards) >= 3


def test_the_selected_remedy_comes_with_lines_to_paste():
    run = finished(
        comparison(Compared(names=KNOWN[:4], minibatches=("1/1",))), "compare"
    )
    (point,) = points([run])
    name = selected(point).name
    snippets = settings_to_paste([run])
    assert snippets[0].code == f'entrometer train --intervention "{name}"'
    assert all(name in snippet.title for snippet in snippets)


def test_an_evaluation_says_how_many_are_right():
    rows = [
        Evaluated(
            checkpoint=f"checkpoint-{step}",
            step=step,
            quantity="pass_at_1",
            value=0.4 + step / 10,
            value_se=0.02,
            value_low=0.36 + step / 10,
            value_high=0.44 + step / 10,
            **dict.fromkeys(("change_se", "change_low", "change_high"), 0.01),
            change=0.1,
            prompts=64,
            responses=128,
        )
        for step in (0, 1)
    ]
    found = evaluation.answer(finished(EvaluationTables(rows), "eval"))
    assert found.title == "50% of the responses are right at step 1"
    assert (found.cards[0].value, found.cards[0].unit) == ("50.0", "%")


def test_parts_of_an_experiment_make_its_page(new_run, tmp_path):
    card = Card("64%", "", "[60%, 68%]", "of <b>it</b>")
    parts = PageParts(
        answer=lambda run: Answer("it works", "A <b>sentence</b>.", (card,)),
        sections=(
            Section("Words", words=lambda runs: "A paragraph."),
            Section("Try it", snippets=lambda runs: [Snippet("shell", "ls <x>")]),
            Section("Nothing", words=lambda runs: None),
            Section("Later", words=lambda runs: "Folded.", folded=True),
        ),
    )
    kinds = {"measure": RunKind("measure", KINDS["measure"].tables, lambda: parts)}
    page = Page(write_report([new_run()], tmp_path / "page.html", kinds))
    for words in ("run: it works", "A <b>sentence</b>.", "of <b>it</b>", "ls <x>"):
        assert words in page.text
    assert page.raw.index("64%") < page.raw.index("A paragraph.")
    assert {"measure-words", "measure-try-it", "measure-later"} <= set(page.ids)
    assert "measure-nothing" not in page.ids
    # Contents at the side, and folded for narrow screens.
    assert page.count("nav") == 2


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("influence", "influence"),
        ("kernel", "kernel"),
        ("entropy-change/float64", "measure"),
        ("interventions/recorded", "compare"),
    ],
)
def test_committed_tables_are_runs(folder, kind):
    (run,) = read_runs([STUDIES / folder], KINDS)
    assert run.kind == kind
    assert run.name.endswith(f"/{Path(folder).name}")
    assert run.tables.signal == []
    assert "Unsealed" in run.warnings[0]
    assert KINDS[kind].parts().answer(run).cards


def test_tables_of_no_experiment_are_refused():
    with pytest.raises(InvalidValue, match=r"got long-runs, one-step; name"):
        read_runs([STUDIES / "interventions"], KINDS)


def test_narrow_figures_stack_their_panels(new_run):
    (run,) = read_runs([new_run()], KINDS)
    plot = calibration([run])
    with style():
        wide = plot.draw()
    with style(NARROW):
        narrow = plot.draw()
    assert narrow.get_size_inches()[0] == NARROW < wide.get_size_inches()[0]
    assert narrow.get_size_inches()[1] == 2 * wide.get_size_inches()[1]
    assert [len(figure.axes) for figure in (wide, narrow)] == [2, 2]
    left, right = (ax.get_subplotspec().colspan.start for ax in narrow.axes)
    assert left == right == 0
