"""What a careful colleague would warn of, on rows made for it."""

from dataclasses import fields, replace

import pytest

from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.narrate import narrate
from entrometer.runs.measurement import Change, Measurement, Term

CONFIG = MeasureConfig(checkpoints=("checkpoint-8",), prompts=64)


def row(kind, **given):
    """Nothing to warn of, but for what is given."""
    default = {str: "x", float: 0.0, int: 64}
    values = {f.name: default[f.type] for f in fields(kind)}
    values |= {"weighting": "per_decision", "per": "token", "precision": "float32"}
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
    found = Measurement([change or CHANGE], [replace(TERM, **term)], [], [], [], [], [])
    return narrate(CONFIG, found)


def test_two_sentences_say_what_and_how_much():
    said = told()
    assert len(said["sentences"]) == 2
    assert "64 prompts" in said["sentences"][0]
    assert "-0.01 [-0.012, -0.008]" in said["sentences"][1]
    assert said["warnings"] == []


@pytest.mark.parametrize(
    ("change", "term", "warning"),
    [
        ({}, {"eta_star": 5e-5}, "beyond eta"),
        ({"effective_samples": 31.0}, {}, "less than half"),
        ({}, {"floor": 4e-3}, "float64"),
        ({"observed_high": 0.001}, {}, "told from 0"),
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
    found = Measurement(
        [CHANGE, rises], [TERM, replace(TERM, update="y")], [], [], [], [], []
    )
    said = narrate(CONFIG, found)["sentences"][1]
    assert "falls for 1 of 2 updates and rises for 1" in said
