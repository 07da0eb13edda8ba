"""Whatever is wrong with a model or an adapter is said at once."""

import json
from pathlib import Path

import pytest
import torch
from peft import IA3Config

from entrometer.errors import InvalidValue
from entrometer.policy import sources
from entrometer.policy.loading import load_policy
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.runs.locations import cache_directory
from tests.policy.saved_models import edit, edit_weights, save_adapter


def test_a_hub_that_does_not_answer_is_said_in_a_line(monkeypatch, tmp_path):
    def snapshot_download(name, **_):
        raise ConnectionError("no route to host\nand a long story")

    monkeypatch.setattr(sources, "snapshot_download", snapshot_download)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SourceNotFound, match=r"no route to host and a long story\)\. Check"
    ) as caught:
        load_policy(f"someone/model@{40 * 'a'}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("revision", ["", "@", "@main", "@" + 39 * "a", "@" + 40 * "A"])
def test_a_hub_name_without_a_commit_is_refused_before_the_hub_is_asked(
    revision, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValue, match="write someone/model@<40 hex digits>"):
        load_policy(f"someone/model{revision}")


@pytest.mark.parametrize("revision", [None, "main"])
def test_an_adapter_whose_base_has_no_commit_is_refused(
    revision, adapter, monkeypatch, tmp_path
):
    edit(
        adapter / "adapter_config.json",
        base_model_name_or_path="someone/model",
        revision=revision,
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValue, match="write someone/model@<40 hex digits>"):
        load_policy(adapter)


@pytest.mark.parametrize("name", ["runs/checkpoint-100", "./runs", "gone", "a/b/c"])
def test_a_mistyped_path_is_never_sent_to_the_hub(name, tmp_path, monkeypatch):
    (tmp_path / "runs" / "checkpoint-10").mkdir(parents=True)
    (tmp_path / "runs" / "checkpoint-10" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SourceNotFound, UnreadableSource)):
        load_policy(name)


def test_the_nearest_sibling_is_named(tmp_path):
    (tmp_path / "checkpoint-200").mkdir()
    with pytest.raises(FileNotFoundError, match="Did you mean 'checkpoint-200'"):
        load_policy(tmp_path / "checkpont-200")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with one complete model, and a working directory without any."""
    model = tmp_path / "cache" / "somemodel"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    files = {"config.json": {"bytes": 2}}
    (model / "manifest.json").write_text(json.dumps({"files": files}))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("ENTROMETER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_the_users(tmp_path, monkeypatch):
    monkeypatch.delenv("ENTROMETER_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "entrometer"
    monkeypatch.setenv("ENTROMETER_CACHE", "~/mine")
    assert cache_directory() == tmp_path / "mine"


def test_a_bare_name_is_a_directory_here_or_else_a_complete_model_of_the_cache(cache):
    assert sources.find_directory("somemodel") == cache / "somemodel"
    Path("somemodel").mkdir()
    assert sources.find_directory("somemodel") == Path("somemodel")


@pytest.mark.parametrize("name", ["somemodl", "tiney"])
def test_an_unknown_name_is_told_with_the_cache_and_the_nearest_name(cache, name):
    nearest = {"somemodl": "somemodel", "tiney": "tiny"}[name]
    with pytest.raises(SourceNotFound, match=f"Did you mean '{nearest}'") as caught:
        load_policy(name)
    assert f"{cache}, which has somemodel." in str(caught.value)


@pytest.mark.parametrize("damage", ["config.json", "manifest.json", "json", "size"])
def test_an_incomplete_model_of_the_cache_is_refused(cache, damage):
    if damage == "json":
        (cache / "somemodel" / "manifest.json").write_text("{")
    elif damage == "size":
        (cache / "somemodel" / "config.json").write_text("{ }")
    else:
        (cache / "somemodel" / damage).unlink()
    with pytest.raises(SourceNotFound, match="not complete"):
        load_policy("somemodel")
    with pytest.raises(SourceNotFound, match="which has none"):
        load_policy("another")


def test_a_file_is_not_a_directory(directory):
    with pytest.raises(UnreadableSource, match="Name the directory it is in"):
        load_policy(directory / "config.json")


def test_an_unknown_precision_is_refused(tiny_directory):
    with pytest.raises(InvalidValue, match="Did you mean 'bfloat16'"):
        load_policy(tiny_directory, precision="float16")


def test_a_directory_without_config_is_refused(directory):
    (directory / "config.json").unlink()
    with pytest.raises(SourceNotFound, match=r"config\.json: no such file"):
        load_policy(directory)


@pytest.mark.parametrize("content", ['{"model_type": ', "[]"])
def test_a_damaged_config_is_refused(directory, content):
    (directory / "config.json").write_text(content)
    with pytest.raises(UnreadableSource, match=r"config\.json: expected.*JSON"):
        load_policy(directory)


def test_pickled_weights_are_refused_with_the_way_out(directory):
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(UnreadableSource, match=r"pytorch_model\.bin.*save_pretrained"):
        load_policy(directory)


def test_a_directory_without_weights_is_refused(directory):
    (directory / "model.safetensors").unlink()
    with pytest.raises(SourceNotFound, match="has no weights"):
        load_policy(directory)


@pytest.mark.parametrize("kept", [0, 5, 1000, 3_900_000])
def test_truncated_weights_are_refused(directory, kept):
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(UnreadableSource, match=r"model\.safetensors: not whole"):
        load_policy(directory)


def test_a_missing_shard_is_named(directory):
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(SourceNotFound, match=r"model/model-00001.*index\.json lists"):
        load_policy(directory)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda w: w.pop("model.norm.weight"), r"1 missing \(model\.norm\.weight\)"),
        (lambda w: w.update(stray=torch.ones(1)), r"1 unexpected \(stray\)"),
        (lambda w: w.update({"model.norm.weight": torch.ones(7)}), "another shape"),
    ],
)
def test_weights_that_are_not_the_models_are_refused(directory, change, told, caplog):
    edit_weights(directory / "model.safetensors", change)
    with pytest.raises(UnreadableSource, match=told):
        load_policy(directory)
    assert caplog.text == ""


def test_quantised_weights_are_refused(directory):
    edit(directory / "config.json", quantization_config={"quant_method": "gptq"})
    with pytest.raises(UnreadableSource, match="quantised"):
        load_policy(directory)


def test_code_in_a_model_directory_is_not_run(directory, tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Stranger: pass\n"
    (directory / "modeling.py").write_text(code)
    automatic = {"AutoConfig": "modeling.Stranger", "AutoModel": "modeling.Stranger"}
    edit(directory / "config.json", model_type="stranger", auto_map=automatic)
    with pytest.raises(UnreadableSource, match="transformers cannot build"):
        load_policy(directory)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("recorded", [None, ""])
def test_an_adapter_without_base_is_refused(adapter, recorded):
    edit(adapter / "adapter_config.json", base_model_name_or_path=recorded)
    with pytest.raises(SourceNotFound, match=r"does not name its model.*`base`"):
        load_policy(adapter)


def test_an_adapter_whose_base_is_gone_names_both(adapter):
    edit(adapter / "adapter_config.json", base_model_name_or_path="/gone/model")
    with pytest.raises(SourceNotFound, match=r"adapter: .*/gone/model: no such"):
        load_policy(adapter)


def test_an_adapter_on_an_adapter_is_refused(adapter):
    edit(adapter / "adapter_config.json", base_model_name_or_path=str(adapter))
    with pytest.raises(UnreadableSource, match="an adapter itself"):
        load_policy(adapter)


def test_an_adapter_that_names_a_module_to_import_is_refused(adapter):
    edit(adapter / "adapter_config.json", megatron_config={"hidden_size": 1})
    with pytest.raises(UnreadableSource, match="megatron_config"):
        load_policy(adapter)


def test_an_adapter_of_another_kind_is_refused(tiny_directory, tmp_path):
    config = IA3Config(
        target_modules=["k_proj"], feedforward_modules=[], task_type="CAUSAL_LM"
    )
    adapter = save_adapter(tiny_directory, tmp_path / "adapter", config)
    with pytest.raises(
        UnreadableSource, match="expected a plain LoRA adapter, got IA3"
    ):
        load_policy(adapter)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.update({first(w): torch.ones(3, 7)}),
        lambda w: w.pop(first(w)),
        lambda w: w.update({first(w).replace("layers.0", "layers.9"): torch.ones(1)}),
    ],
    ids=["shape", "missing", "extra"],
)
def test_an_adapter_that_does_not_fit_is_refused(adapter, change):
    edit_weights(adapter / "adapter_model.safetensors", change)
    with pytest.raises(UnreadableSource, match="does not fit Qwen2ForCausalLM") as told:
        load_policy(adapter)
    assert "layers." in str(told.value)
    assert "\n" not in str(told.value)


def first(weights):
    return min(weights)


def test_an_adapter_for_other_layers_is_refused(adapter):
    edit(adapter / "adapter_config.json", target_modules=["query_key_value"])
    with pytest.raises(UnreadableSource, match=r"query_key_value.*`base`"):
        load_policy(adapter)


def test_a_truncated_adapter_is_refused(adapter):
    file = adapter / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(
        UnreadableSource, match=r"adapter_model\.safetensors: not whole"
    ):
        load_policy(adapter)


def test_a_pickled_adapter_is_refused(adapter):
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(UnreadableSource, match=r"adapter_model\.bin, a pickle"):
        load_policy(adapter)
