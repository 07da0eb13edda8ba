"""A config is compared with the weights before it takes memory or time."""

import os

import pytest
import torch
from torch import nn

from entrometer.policy.loading import load_policy
from entrometer.policy.sources import UnreadableSource
from entrometer.policy.weights import (
    read_shapes,
    require_filled,
    skeleton,
    weight_files,
)
from tests.policy.saved_models import edit

LAYERS = {"num_hidden_layers": 9000, "layer_types": ["full_attention"] * 9000}


def built(directory):
    shapes = read_shapes(weight_files(directory, "model"))
    model = skeleton(directory, len(shapes))
    require_filled(directory, model, shapes)
    return model


def test_a_config_of_its_weights_is_built_without_memory(directory):
    model = built(directory)
    assert all(p.is_meta for p in model.parameters())
    held = sum(p.numel() for p in load_policy(directory).model.parameters())
    assert sum(p.numel() for p in model.parameters()) == held


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocab_size": 15_000_000}, "at most .* parameters"),
        ({"intermediate_size": 10**8}, "at most .* parameters"),
        (LAYERS, "more than .* parameters, by name"),
        ({"num_hidden_layers": 10**9}, "expected at most 100000 for num_hidden_layers"),
        ({"num_labels": 10**9}, "expected at most 100000 for num_labels"),
        ({"text_config": {"n_layer": 10**9}}, "expected at most 100000 for n_layer"),
        ({"num_hidden_layers": -1}, "cannot build"),
        ({"num_attention_heads": 0}, "cannot build"),
        ({"pad_token_id": 10**6}, "cannot build"),
    ],
)
def test_a_config_of_a_larger_model_is_refused(directory, change, said):
    edit(directory / "config.json", **change)
    with pytest.raises(UnreadableSource, match=rf"config\.json: .*{said}"):
        built(directory)


def test_tables_that_are_computed_are_bounded(directory):
    model = nn.Linear(2, 2, device="meta")
    require_filled(directory, model, {"weight": [2, 2], "bias": [2]})
    model.register_buffer("mask", torch.empty(10**6, 10**6, device="meta"))
    with pytest.raises(UnreadableSource, match="tables of masks or positions"):
        require_filled(directory, model, {"weight": [2, 2], "bias": [2]})


@pytest.mark.parametrize("name", ["tokenizer.json", "generation_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "size"])
def test_files_that_libraries_open_are_regular_and_small(directory, name, kind):
    (directory / name).unlink()
    if kind == "pipe":
        os.mkfifo(directory / name)
    elif kind == "device":
        (directory / name).symlink_to("/dev/zero")
    else:
        with (directory / name).open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(UnreadableSource, match=name):
        load_policy(directory)


def test_another_file_of_weights_is_refused(directory):
    edit(directory / "config.json", transformers_weights="other.safetensors")
    with pytest.raises(UnreadableSource, match="transformers_weights"):
        load_policy(directory)


def test_code_beside_a_known_type_is_passed_over_and_said(directory, caplog):
    edit(directory / "config.json", auto_map={"AutoConfig": "evil.Evil"})
    load_policy(directory)
    assert "config.json: names Python code of its own, which is not run" in caplog.text
