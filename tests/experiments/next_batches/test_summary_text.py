"""What is said of the next batches: an advice, none, and what would tell."""

import math
from dataclasses import replace

import pytest

from entrometer.experiments.next_batches.summary import (
    next_batch_sentences,
    next_batch_warnings,
)
from entrometer.runs.tables.next_batches import (
    KEPT_UP,
    BatchChange,
    ExpectedChange,
    advice,
)

PLAIN = ExpectedChange(
    checkpoint="checkpoint-8",
    loss="dr-grpo",
    against="",
    objective="entropy",
    eta=1e-3,
    horizon=1,
    batches=8,
    batches_with_signal=7,
    prompts=256,
    expected=-0.04,
    expected_se=0.01,
    expected_low=-0.06,
    expected_high=-0.02,
    next_low=-0.1,
    next_high=0.02,
    p_value=0.001,
    passes=True,
    batch_share=0.7,
)


def gain(loss, value, reach, **changes):
    return replace(
        PLAIN,
        **{
            "loss": loss,
            "against": "dr-grpo",
            "horizon": KEPT_UP,
            "expected": value,
            "expected_low": value - reach,
            "expected_high": value + reach,
            "passes": abs(value) > reach,
            **changes,
        },
    )


GOOD = gain("entropy-bonus", 0.02, 0.005)
BETTER = gain("kl-cov", 0.03, 0.01)
VAGUE = gain("grpo", 0.005, 0.01, p_value=0.3)
REWARD = gain("kl-cov", -0.001, 0.004, objective="reward", horizon=1, passes=False)


def test_the_largest_gain_that_passes_is_advised():
    rows = [PLAIN, GOOD, BETTER, VAGUE, REWARD]
    change, advised = next_batch_sentences(rows)
    assert "-0.040 [-0.060, -0.020] nats per token on average" in change
    assert "[-0.100, +0.020] with 95% (8 batches, 7 with signal" in change
    assert "kl-cov, kept up for 32 steps, keeps +0.030" in advised
    assert "reward" in advised
    assert "not distinguishable" in advised
    assert "largest of 3 gains" in advised


def test_momentums_part_of_the_change_is_said():
    known = {"momentum_low": -0.05, "momentum": -0.03, "momentum_high": -0.01}
    (text,) = next_batch_sentences([replace(PLAIN, **known)])
    assert "on average, of which momentum makes -0.030 [-0.050, -0.010], and" in text
    (text,) = next_batch_sentences([PLAIN])
    assert "momentum" not in text


def test_without_one_that_passes_it_says_what_would_tell():
    _, advised = next_batch_sentences([PLAIN, VAGUE])
    assert "no remedy is distinguishable from plain" in advised
    # Twice the half-width of the interval over the value, squared, and a fifth more.
    assert "about 39 batches and 1,300 prompts would be enough" in advised


def test_a_gain_below_0_is_no_advice():
    _, advised = next_batch_sentences([PLAIN, gain("steer", -0.03, 0.01)])
    assert "none of 1 remedies is expected to keep more" in advised


def test_batches_that_do_not_differ_give_no_verdict():
    nothing = replace(
        PLAIN, expected_low=math.nan, expected_high=math.nan, next_low=math.nan
    )
    (text,) = next_batch_sentences([nothing])
    assert "no verdict" in text


def test_a_change_without_remedies_is_one_sentence():
    assert len(list(next_batch_sentences([PLAIN]))) == 1
    assert not list(next_batch_sentences([]))


def test_fewer_batches_than_asked_for_are_told():
    (text,) = next_batch_warnings([PLAIN], [], ["checkpoint-8"], 16)
    assert "expected 16 update batches, got 8;" in text
    (text,) = next_batch_warnings([], [], ["checkpoint-8"], 8)
    assert "so there is no verdict on the next ones" in text
    assert not list(next_batch_warnings([], [], ["checkpoint-8"], 1))


def test_batches_that_are_worth_few_responses_are_told():
    shares = {"recorded": 1.0, "step-10": 0.85, "step-16": 0.07}
    rows = [
        BatchChange(
            checkpoint="checkpoint-8",
            batch=name,
            loss="dr-grpo",
            objective="entropy",
            eta=1e-3,
            groups=8,
            groups_with_signal=5,
            effective_share=share,
            change=-0.01,
            change_se=0.002,
            change_low=-0.014,
            change_high=-0.006,
            momentum=-0.007,
        )
        for name, share in shares.items()
    ]
    (text,) = next_batch_warnings([PLAIN], rows, ["checkpoint-8"], 8)
    assert "1 of 3 update batches" in text
    assert "the least 7%" in text
    assert not list(next_batch_warnings([PLAIN], rows[:2], ["checkpoint-8"], 8))


@pytest.mark.parametrize(("rows", "best"), [([GOOD, BETTER], "kl-cov"), ([VAGUE], "")])
def test_advice_of_a_checkpoint(rows, best):
    found = advice([PLAIN, *rows], "checkpoint-8")
    assert (found.best.loss if found.best else "") == best
    assert advice([PLAIN], "checkpoint-9") is None


GROWTH = replace(PLAIN, objective="reward", expected=0.05)
PRICE = gain("kl-cov", -0.01, 0.004, objective="reward", horizon=1, passes=True)


def test_a_gain_with_a_price_in_reward_comes_after_those_without():
    rows = [PLAIN, GROWTH, GOOD, BETTER, PRICE]
    found = advice(rows, "checkpoint-8")
    assert (found.best.loss, found.dearer.loss) == ("entropy-bonus", "kl-cov")
    _, text = next_batch_sentences(rows)
    assert "entropy-bonus, kept up for 32 steps" in text
    assert (
        "kl-cov keeps more, +0.0300 [+0.0200, +0.0400], and changes reward by" in text
    )


def test_a_gain_with_a_price_is_advised_if_there_is_no_other():
    rows = [PLAIN, GROWTH, BETTER, PRICE, VAGUE]
    found = advice(rows, "checkpoint-8")
    assert (found.best.loss, found.dearer) == ("kl-cov", None)
    _, text = next_batch_sentences(rows)
    assert "distinguishable from 0. It is the largest of 2 gains" in text


@pytest.mark.parametrize(
    ("value", "best"),
    # A tenth of what plain gains is 0.005.
    [(0.01, "kl-cov"), (-0.004, "kl-cov"), (-0.006, "entropy-bonus")],
)
def test_hardly_any_reward_is_no_price(value, best):
    price = replace(PRICE, expected=value)
    rows = [PLAIN, GROWTH, GOOD, BETTER, price]
    assert advice(rows, "checkpoint-8").best.loss == best
