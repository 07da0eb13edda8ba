"""What a careful colleague would warn of, on rows made for it."""

import math
from dataclasses import fields
from typing import get_type_hints

import pytest

from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.summary import summarize
from entrometer.runs.tables.influence import Balance, InfluenceTables, Removal, Token

CONFIG = InfluenceConfig(checkpoints=("checkpoint-8",), prompts=64, batches=1)


def row(kind, **given):
    default = {str: "x", float: 0.0, int: 64}
    types = get_type_hints(kind)
    return kind(**({f.name: default[types[f.name]] for f in fields(kind)} | given))


def parts(**changed):
    """Nothing to warn of, but for what is given: value, low and high of a part."""
    values = {
        "entropy batch": (-30.0, -32.0, -28.0),
        "entropy history": (-10.0, -11.0, -9.0),
        "entropy decay": (0.0, 0.0, 0.0),
        "reward batch": (20.0, 18.0, 22.0),
    } | {name.replace("_", " "): value for name, value in changed.items()}
    for name, (value, low, high) in values.items():
        objective, part = name.split()
        yield row(
            Balance,
            objective=objective,
            part=part,
            learning_rate=1e-3,
            value=value,
            value_low=low,
            value_high=high,
        )


def told(influences=(-1.0,) * 200, **changed):
    tokens = [row(Token, entropy=value) for value in influences]
    tables = InfluenceTables(tokens, [], list(parts(**changed)), [], [], [], [])
    return summarize(CONFIG, tables)


def test_sentences_say_what_and_how_much():
    said = told()
    assert "each of 200 tokens" in said["sentences"][0]
    assert "64 prompts with one response each, in 8 folds" in said["sentences"][0]
    assert "by -0.0300 [-0.0320, -0.0280] nats per token" in said["sentences"][1]
    assert "1% of the tokens with a gradient have 1%" in said["sentences"][1]
    assert said["warnings"] == []


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (
            {"entropy_history": (40.0, 39.0, 41.0)},
            "momentum of earlier batches",
        ),
        (
            {"entropy_batch": (-30.0, -62.0, 2.0)},
            "entropy is not distinguishable",
        ),
        ({"reward_batch": (1.0, -1.0, 3.0)}, "reward is not distinguishable"),
        ({"influences": (-900.0,) + (1.0,) * 199}, "have 82%"),
    ],
)
def test_each_danger_is_told(given, warning):
    (said,) = told(**given)["warnings"]
    assert warning in said
    assert said.startswith("x, x: ")


def test_tokens_without_a_gradient_are_not_among_the_hundredth():
    # 2 of 200 tokens with a gradient; counting all 1,000, it would be 10 of them.
    sizes = (-50.0,) * 2 + (-1.0,) * 198 + (0.0,) * 800
    assert "have 34% of" in told(sizes)["sentences"][1]


def test_a_batch_without_influence_has_no_share_that_few_tokens_carry():
    nothing = (0.0, 0.0, 0.0)
    said = told((0.0,) * 5, entropy_batch=nothing, entropy_history=nothing)
    assert "1% of the tokens" not in said["sentences"][1]
    assert "nan" not in said["sentences"][1]


def test_a4_a_removal_that_is_not_finite_is_named():
    lost = row(Removal, observed=math.nan, eta=1e30)
    tokens = [row(Token, entropy=-1.0) for _ in range(200)]
    tables = InfluenceTables(tokens, [], list(parts()), [], [], [], [lost])
    (warning,) = summarize(CONFIG, tables)["warnings"]
    assert "at the learning rate 1e+30" in warning
