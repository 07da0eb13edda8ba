"""The settings of an adapter are names and numbers; its shapes are the file's."""

import pytest
import torch

from entrometer.policy.loading import load_policy
from entrometer.policy.sources import UnreadableSource
from tests.policy.saved_models import edit, edit_weights

ENDLESS = "(.+)+!"


@pytest.mark.parametrize(
    "change",
    [
        {"target_modules": ENDLESS},
        {"target_modules": [ENDLESS]},
        {"target_modules": ".*q_proj"},
        {"exclude_modules": ENDLESS},
        {"modules_to_save": [ENDLESS]},
        {"layers_pattern": ENDLESS, "layers_to_transform": [0]},
        {"rank_pattern": {ENDLESS: 2}},
        {"alpha_pattern": {ENDLESS: 2}},
        {"target_modules": [f"m{i}" for i in range(2000)]},
    ],
)
def test_patterns_are_refused_before_they_are_matched(adapter, change):
    edit(adapter / "adapter_config.json", **change)
    with pytest.raises(UnreadableSource, match="names of modules without any pattern"):
        load_policy(adapter)


@pytest.mark.parametrize("change", [{"r": 20_000_000}, {"rank_pattern": {"q_proj": 9}}])
def test_a_rank_is_compared_with_the_file(adapter, change):
    edit(adapter / "adapter_config.json", **change)
    with pytest.raises(UnreadableSource, match=r"lora_[AB].*expected shape .*, got"):
        load_policy(adapter)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lora_alpha": float("nan")}, "finite number for lora_alpha"),
        ({"r": "3"}, "finite number for r"),
        ({"base_model_name_or_path": 5}, "expected a name or a path"),
        ({"base_model_name_or_path": "a" * 10**6}, "expected a name or a path"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa'"),
        ({"layer_replication": [[0, 4]]}, "got layer_replication"),
        ({"use_something_new": True}, "got use_something_new"),
    ],
)
def test_settings_that_would_mean_something_else_are_refused(adapter, change, said):
    edit(adapter / "adapter_config.json", **change)
    with pytest.raises(UnreadableSource, match=rf"adapter_config\.json.*{said}"):
        load_policy(adapter)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused(adapter, value):
    edit_weights(
        adapter / "adapter_model.safetensors",
        lambda weights: next(iter(weights.values())).fill_(value),
    )
    with pytest.raises(UnreadableSource, match=r"finite weights.*lora_A"):
        load_policy(adapter)
