import json

from entrometer.policy import load_policy, tiny_policy
from entrometer.policy.adapter import base_of
from entrometer.policy.tiny import save_tiny
from entrometer.training.checkpoint_files import refer_to_base
from tests.training.toy import quietly


def test_an_adapter_names_its_base_and_leaves_the_tokenizer_to_it(tmp_path):
    policy = tiny_policy(lora_rank=2, lora_std=0.3)
    with quietly():
        policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    before = json.loads((tmp_path / "adapter_config.json").read_text())
    refer_to_base(tmp_path, "tiny")
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors"}
    after = json.loads((tmp_path / "adapter_config.json").read_text())
    modules = sorted(before["target_modules"])
    assert after == before | {
        "base_model_name_or_path": "tiny",
        "target_modules": modules,
    }
    loaded = load_policy(tmp_path)
    assert (
        loaded.tokenizer("1+1=")["input_ids"] == policy.tokenizer("1+1=")["input_ids"]
    )
    assert loaded.trained().keys() == policy.trained().keys()


def test_a_base_directory_is_named_as_seen_from_where_the_adapter_will_be(tmp_path):
    policy = tiny_policy(lora_rank=2)
    base, stage = save_tiny(tmp_path / "base"), tmp_path / ".saving" / "checkpoint-0"
    with quietly():
        policy.model.save_pretrained(stage)
    refer_to_base(stage, str(base), destination=tmp_path / "checkpoint-0")
    config = json.loads((stage / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "../base"
    stage.rename(tmp_path / "checkpoint-0")
    tmp_path.joinpath("moved").mkdir()
    for name in ("base", "checkpoint-0"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    load_policy(tmp_path / "moved" / "checkpoint-0")


def test_the_commit_of_a_base_on_the_hub_has_the_field_that_peft_gives_it(tmp_path):
    name = f"someone/model@{40 * 'a'}"
    with quietly():
        tiny_policy(lora_rank=2).model.save_pretrained(tmp_path)
    refer_to_base(tmp_path, name)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "someone/model"
    assert config["revision"] == 40 * "a"
    assert base_of(tmp_path) == name


def test_a_whole_model_stays_as_it_is(tmp_path):
    save_tiny(tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    refer_to_base(tmp_path, "smollm2")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
