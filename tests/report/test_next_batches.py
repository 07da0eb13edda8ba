"""The verdict on the next batches on a page: words, cards, figure, table."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from entrometer.report.kinds import FinishedRun
from entrometer.report.next_batches import (
    advice_of,
    batch_table,
    confidence,
    drain,
    next_cards,
    next_gains,
    remedy,
)
from entrometer.report.style import style
from entrometer.runs.tables.next_batches import BatchChange
from tests.experiments.next_batches.test_summary_text import (
    BETTER,
    GOOD,
    PLAIN,
    REWARD,
    VAGUE,
)

BATCH = BatchChange(
    checkpoint="checkpoint-8",
    batch="recorded",
    loss="dr-grpo",
    objective="entropy",
    eta=1e-3,
    groups=8,
    groups_with_signal=5,
    effective_share=1.0,
    change=-0.05,
    change_se=0.01,
    change_low=-0.07,
    change_high=-0.03,
    momentum=-0.03,
)


def run_of(*rows, batches=()):
    tables = SimpleNamespace(expected=list(rows), batches=list(batches))
    words = ("compare", "run", "title", (), (), {}, {})
    return FinishedRun(*words, tables)


def test_the_answer_names_the_remedy_its_gain_and_its_cost():
    found = advice_of(run_of(PLAIN, GOOD, BETTER, VAGUE, REWARD))
    assert "lowers entropy by 0.040 [0.020, 0.060] nats per token" in drain(found)
    text = remedy(found)
    assert text.startswith("kl-cov, kept up for 32 steps, keeps 0.0300 [0.0200, ")
    assert "gain in reward is −0.0010 [−0.0050, 0.0030], not distinguishable" in text
    assert "8 update batches, 7 of them with signal, and 256 prompts" in confidence(
        found
    )
    cards = next_cards(found)
    assert [c.value for c in cards] == ["−0.040", "+0.0300"]
    assert "the next one's change is within [−0.100, 0.020] with 95%" in drain(found)


def test_without_advice_it_says_what_would_tell():
    text = remedy(advice_of(run_of(PLAIN, VAGUE)))
    assert "No remedy is distinguishable from the loss as it is" in text
    assert "it takes about 4.8 times as many batches and prompts" in text


def test_batches_without_signal_give_no_verdict():
    nothing = replace(PLAIN, expected_low=math.nan, expected_high=math.nan)
    found = advice_of(run_of(nothing))
    assert "no verdict" in drain(found)
    assert not next_cards(found)


def test_a_run_of_one_batch_has_no_part_of_it():
    assert advice_of(run_of()) is None
    assert next_gains([run_of()]) is None
    assert batch_table([run_of()]) is None


def test_figure_and_table_have_every_gain_and_batch():
    now = [replace(x, horizon=1) for x in (GOOD, BETTER, VAGUE)]
    runs = [run_of(PLAIN, GOOD, BETTER, VAGUE, *now, batches=[BATCH])]
    plot = next_gains(runs)
    assert len(plot.table.rows) == 6
    assert "2 of 3 gains" in plot.caption
    with style():
        figure = plot.draw()
    assert len(figure.axes) == 2
    table = batch_table(runs)
    assert table.rows[0][-4:-1] == ("5 of 8", "100%", "−0.050 [−0.070, −0.030]")


@pytest.mark.parametrize("low", [-0.06, 0.02])
def test_a_rise_and_no_change_are_told(low):
    row = replace(PLAIN, expected=0.04, expected_low=low, expected_high=0.14)
    said = "raises entropy by" if low > 0 else "by no more than noise"
    assert said in drain(advice_of(run_of(row)))
