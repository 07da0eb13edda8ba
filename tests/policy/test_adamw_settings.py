"""Settings of AdamW as torch and fused optimizers keep them."""

from pathlib import Path

import pytest

from entrometer.policy.adamw_settings import AdamWSettings, common_settings, one_step
from entrometer.policy.sources import UnreadableSource

FUSED = {
    "lr": 1e-3,
    "betas": [0.9, 0.99],
    "eps": 1e-8,
    "weight_decay": 0.1,
    "bias_correction": True,
}
PATH = Path("optimizer.pt")


def test_a_fused_group_needs_no_list_of_parameters_and_no_amsgrad():
    found = common_settings(PATH, [FUSED, {**FUSED, "weight_decay": 0.0}])
    assert found == AdamWSettings(1e-3, (0.9, 0.99), 1e-8)


def test_an_empty_group_has_no_say():
    empty = {**FUSED, "lr": 7.0, "params": []}
    assert common_settings(PATH, [FUSED, empty]).learning_rate == 1e-3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bias_correction": False}, "not corrected"),
        ({"decoupled_weight_decay": False}, "part of the gradient"),
        ({"maximize": True}, "amsgrad or maximize"),
    ],
)
def test_what_steps_otherwise_is_refused(change, told):
    with pytest.raises(UnreadableSource, match=told):
        common_settings(PATH, [{**FUSED, **change}])


def test_no_group_at_all_is_refused():
    with pytest.raises(UnreadableSource, match=r"one learning rate.*got \[\]"):
        common_settings(PATH, [])


def test_steps_must_agree():
    assert one_step(PATH, [3, 3]) == 3
    for steps in ([], [2, 3]):
        with pytest.raises(UnreadableSource, match="one number of steps"):
            one_step(PATH, steps)
