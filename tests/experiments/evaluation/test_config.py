from dataclasses import replace

import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.evaluation.config import EvalConfig


def test_pass_at_1_is_always_there(config):
    assert replace(config, ks=(3, 2)).all_ks == (1, 2, 3)


@pytest.mark.parametrize("ks", [(1, 9), (0,), (-1, 2)])
def test_more_ks_than_responses_are_refused_before_anything_is_sampled(ks):
    with pytest.raises(InvalidValue, match=r"from 1 to the 8 responses.*raise"):
        EvalConfig(checkpoints=("x",), responses=8, ks=ks)


@pytest.mark.parametrize(
    "change",
    [
        {"problems": -1},
        {"responses": 0},
        {"max_tokens": 0},
        {"shard": 0},
        {"fraction": 0.0},
        {"fraction": 1.1},
        {"fraction": float("nan")},
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"seed": -1},
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_by_name(config, change):
    (name,) = change
    with pytest.raises(InvalidValue, match=name):
        replace(config, **change)
