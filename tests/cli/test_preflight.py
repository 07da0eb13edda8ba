"""Mistakes that files alone show are said before torch is imported."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from entrometer.api.preflight import preflight, require_model
from entrometer.errors import InvalidValue
from entrometer.experiments.experiment import experiment, experiment_names
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.runs import read_update, update_path, write_update
from tests.cli.conftest import CONFIG


def config(path, **settings):
    same = {"task": CONFIG.task, "max_tokens": CONFIG.max_tokens}
    return MeasureConfig(
        checkpoints=(str(path),), temperature=CONFIG.temperature, **same, **settings
    )


def test_a_sound_checkpoint_passes(trained):
    preflight(config(trained / "checkpoint-2"))


def test_torch_is_not_imported():
    code = (
        "import entrometer.api.preflight, sys;"
        "assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_training_is_told_a_checkpoint_of_it(tmp_path):
    for n in (2, 10, 4):
        (tmp_path / f"checkpoint-{n}").mkdir()
    with pytest.raises(InvalidValue, match=r"such as .*checkpoint-4$"):
        require_model(tmp_path)


@pytest.fixture
def copied(trained, tmp_path):
    """The files of a checkpoint, in a training without recorded updates."""
    place = tmp_path / "checkpoint-2"
    place.mkdir()
    for file in (trained / "checkpoint-2").iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("optimizer.pt", "save_only_model"),
        ("adapter_model.safetensors", "copy the whole checkpoint"),
        ("", "give --updates sampled-1"),
    ],
)
def test_a_file_that_is_missing_is_named(copied, missing, remedy):
    if missing:
        Path(copied / missing).unlink()
    with pytest.raises(InvalidValue, match=remedy):
        preflight(config(copied))


def test_a_device_that_is_not_there_is_told_of_the_processor(trained):
    with pytest.raises(InvalidValue, match="give --device cpu"):
        preflight(config(trained / "checkpoint-2", device="cuda:9"))


def test_a_base_beside_the_adapter_is_found_from_the_adapter(copied, monkeypatch):
    file = copied / "adapter_config.json"
    file.write_text(json.dumps({"base_model_name_or_path": "./base"}))
    (copied / "base").mkdir()
    # It passes this check, and fails the next one: no recorded updates.
    with pytest.raises(InvalidValue, match="give --updates sampled-1"):
        preflight(config(copied, policy=None))
    (copied / "base").rmdir()
    monkeypatch.chdir(copied.parent)
    (copied.parent / "base").mkdir()
    with pytest.raises(InvalidValue, match="name its place with --policy"):
        preflight(config(copied, policy=None))


def test_fresh_responses_to_own_prompts_need_a_reward(copied, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "{n}"}}\n' for n in range(9)))
    own = {"prompts_file": str(prompts), "task": "own", "problems": 9}
    same = {"max_tokens": CONFIG.max_tokens, "temperature": CONFIG.temperature}
    settings = {"checkpoints": (str(copied),), "updates": ("sampled-1",), **own, **same}
    with pytest.raises(InvalidValue, match="give --reward module:function"):
        preflight(MeasureConfig(**settings))
    # Of `eval`, and of `fork`, which takes steps too.
    for of_steps in (False, True):
        with pytest.raises(InvalidValue, match="which grades responses"):
            preflight(MeasureConfig(**settings), of_steps=of_steps, grades=True)


def test_mixed_precision_needs_an_adapter(trained, tmp_path):
    preflight(config(trained / "checkpoint-2", precision="mixed"))
    for name in ("config.json", "model.safetensors", "optimizer.pt"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InvalidValue, match="expected an adapter for --precision mixed"):
        preflight(config(tmp_path, precision="mixed"))


def test_responses_of_a_tool_need_a_task_whose_tool_replies(trained, copied):
    """Fresh responses without the tool would be those of another policy."""
    batch = read_update(update_path(trained, 3))
    masks = [np.ones(t.size, bool) for t in batch.response_tokens]
    longest = max(masks, key=len)
    longest[:1] = False
    path = update_path(copied.parent, 3)
    path.parent.mkdir()
    write_update(path, batch)
    preflight(config(copied))
    write_update(path, replace(batch, written=tuple(masks)))
    with pytest.raises(InvalidValue, match="got the task 'few-letters', whose fresh"):
        preflight(config(copied))


def test_a_sampling_server_lets_no_tool_reply(trained):
    settings = config(trained / "checkpoint-2")
    settings = replace(settings, task="calculator", sampler="http://127.0.0.1:1")
    with pytest.raises(InvalidValue, match="leave out --sampler"):
        preflight(settings)


def test_a_tool_for_a_task_that_is_not_yours_is_refused(trained):
    settings = replace(config(trained / "checkpoint-2"), tool="tools:reply")
    with pytest.raises(InvalidValue, match="leave out --tool"):
        preflight(settings)


def test_experiments_that_score_fresh_responses_say_so():
    graded = {name for name in experiment_names() if experiment(name).grades}
    assert graded == {"eval", "fork"}
