"""Sentences and warnings of a summary, on rows made for it."""

import math
from dataclasses import fields, replace

import pytest

from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.summary import summarize
from entrometer.runs.tables.measure import Change, MeasureTables, Term, Variance
from entrometer.runs.tables.signal import UpdateSignal

CONFIG = MeasureConfig(checkpoints=("checkpoint-8",), prompts=64, batches=1)


def row(kind, **given):
    """Nothing to warn of, but for what is given."""
    default = {str: "x", float: 0.0, int: 64}
    values = {f.name: default[f.type] for f in fields(kind)}
    common = {"weighting": "per_decision", "per": "token", "precision": "float32"}
    values |= {name: value for name, value in common.items() if name in values}
    return kind(**(values | given))


CHANGE = row(
    Change,
    eta=1e-4,
    observed=-0.01,
    observed_low=-0.012,
    observed_high=-0.008,
    linear=-0.0101,
    linear_low=-0.012,
    linear_high=-0.008,
    error=-0.0001,
    effective_samples=60.0,
)
TERM = row(Term, learning_rate=1e-4, entropy=0.4, eta_star=1e-2, floor=1e-7)


def told(change=None, **term):
    found = MeasureTables(
        [change or CHANGE], [replace(TERM, **term)], [], [], [], [], []
    )
    return summarize(CONFIG, found)


def test_two_sentences_say_what_and_how_much():
    said = told()
    assert len(said["sentences"]) == 2
    assert "64 prompts" in said["sentences"][0]
    assert "-0.0100 [-0.0120, -0.0080]" in said["sentences"][1]
    assert said["warnings"] == []


@pytest.mark.parametrize(
    ("change", "term", "warning"),
    [
        ({}, {"eta_star": 5e-5}, "beyond eta"),
        ({"effective_samples": 31.0}, {}, "less than half"),
        ({}, {"floor": 4e-3}, "float64"),
        ({"observed_high": 0.001}, {}, "includes 0"),
    ],
)
def test_each_danger_is_told(change, term, warning):
    (said,) = told(replace(CHANGE, **change), **term)["warnings"]
    assert warning in said
    assert "x, x" in said


def test_several_updates_are_counted():
    rises = replace(
        CHANGE, update="y", observed=0.01, observed_low=0.008, observed_high=0.012
    )
    found = MeasureTables(
        [CHANGE, rises], [TERM, replace(TERM, update="y")], [], [], [], [], []
    )
    said = summarize(CONFIG, found)["sentences"][1]
    assert "falls for 1 of 2 updates and rises for 1" in said


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a4_a_change_that_is_not_finite_is_named(value):
    said = told(replace(CHANGE, observed=value))
    assert "undefined" in said["sentences"][1]
    (warning,) = said["warnings"]
    assert "at the learning rates 0.0001 the change is undefined" in warning
    assert not any("nan" in text or "inf " in text for text in said["sentences"])


def test_a4_of_several_updates_one_that_is_not_finite_is_named():
    lost = replace(CHANGE, update="y", observed=math.nan, observed_low=math.nan)
    terms = [TERM, replace(TERM, update="y")]
    said = summarize(CONFIG, MeasureTables([CHANGE, lost], terms, [], [], [], [], []))
    assert "nan" not in said["sentences"][1]
    (warning,) = said["warnings"]
    assert warning.startswith("x, y: at the learning rates 0.0001")


def test_a4_a_negative_variance_is_told_with_its_reason():
    lost = row(Variance, one_batch_hoeffding_se=math.nan, one_batch_jackknife_se=434.0)
    said = summarize(CONFIG, MeasureTables([CHANGE], [TERM], [lost], [], [], [], []))
    (warning,) = said["warnings"]
    assert "negative" in warning
    assert "434" in warning


def test_an_update_without_signal_leads_the_summary():
    silent = row(UpdateSignal, groups_with_signal=0, groups=8, quantity="entropy")
    some = replace(silent, update="y", groups_with_signal=3, minibatch="1/1")
    found = MeasureTables([CHANGE], [TERM], [], [], [], [], [], [silent, some])
    said = summarize(CONFIG, found)
    assert said["sentences"][0].startswith("No signal: x, x")
    assert "x, y" not in said["sentences"][0]
    assert "3 of 8 prompt groups have signal" in said["sentences"][-1]
    assert said["warnings"][0].startswith("x, x")
