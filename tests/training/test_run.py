"""A run from its config: what it leaves, and what it does not do twice."""

import json
import logging
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy
from entrometer.runs import (
    checkpoints,
    newest_complete,
    read_update,
    update_path,
    verify,
)
from entrometer.tasks import Score, Split
from entrometer.training import AdapterConfig, ImitationConfig, prolong, read_config
from entrometer.training import run as room
from entrometer.training.run import accumulation_steps, prompt_table, reward_functions
from tests.training.toy import CONFIG, Letters, digests, quietly


def train(config, run, progress=None):
    with quietly():
        room.train(config, run, progress=progress)


@pytest.fixture(scope="module")
def told() -> list[tuple]:
    """What the run said of its progress."""
    return []


@pytest.fixture(scope="module")
def finished(tmp_path_factory, told) -> Path:
    run = tmp_path_factory.mktemp("runs") / "finished"
    train(CONFIG, run, progress=lambda *heard: told.append(heard))
    return run


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_a_run_directory_holds(finished):
    assert sorted(p.name for p in finished.iterdir() if p.name[0] != ".") == [
        "checkpoint-0",
        "checkpoint-1",
        "checkpoint-2",
        "config.json",
        "imitation",
        "manifest.json",
        "updates",
    ]
    assert read_config(finished) == CONFIG
    assert newest_complete(finished) == (finished / "checkpoint-2", [])
    assert len(list((finished / "updates").iterdir())) == 2


def test_all_files_have_the_mode_of_any_new_file(finished, tmp_path):
    """Others of a cluster can read the weights, where safetensors closes them."""
    (tmp_path / "plain").touch()
    files = [p for p in finished.rglob("*") if p.is_file()]
    assert "adapter_model.safetensors" in {p.name for p in files}
    assert {p.stat().st_mode for p in files} == {(tmp_path / "plain").stat().st_mode}


def test_the_config_is_what_is_trained(finished):
    batch = read_update(update_path(finished, 1))
    assert batch.count == CONFIG.prompts * CONFIG.responses
    assert batch.settings.rewards == ("answer", "format")
    assert batch.settings.reward_weights == (1.0, CONFIG.format_weight)
    assert batch.settings.max_tokens == CONFIG.max_tokens
    assert max(t.size for t in batch.response_tokens) <= CONFIG.max_tokens
    adapter = json.loads((finished / "checkpoint-2/adapter_config.json").read_text())
    assert adapter["r"] == 8
    assert adapter["base_model_name_or_path"] == "tiny"
    state = json.loads((finished / "checkpoint-2/trainer_state.json").read_text())
    last = state["log_history"][-1]
    for name in ("entropy/token", "effective_samples/tokens", "noise_scale/trace"):
        assert name in last


def test_progress_is_told_of_every_step_of_both_stages(finished, told):
    steps = [(stage, step, steps) for stage, step, steps, _ in told]
    assert steps == [
        ("imitation", 1, 2),
        ("imitation", 2, 2),
        ("Dr-GRPO", 1, 2),
        ("Dr-GRPO", 2, 2),
    ]
    assert all("loss" in metrics for *_, metrics in told)


def test_imitation_leaves_a_complete_adapter_that_training_begins_with(finished):
    verify(finished / "imitation")
    assert not (finished / "imitation" / "training_args.bin").exists()
    imitated = load_policy(finished / "imitation").trained()
    begun = load_policy(finished / "checkpoint-0").trained()
    fresh = room._fresh(CONFIG).trained()
    assert all(torch.equal(begun[name], imitated[name]) for name in fresh)
    assert any(not torch.equal(begun[name], fresh[name]) for name in fresh)


def test_what_is_finished_is_not_done_again(copy, monkeypatch):
    """Resumed in the middle, with an imitation that would fail."""

    def fail(*args):
        raise AssertionError("imitation was done again")

    monkeypatch.setattr(room, "imitate", fail)
    expected = digests(copy, 2)
    shutil.rmtree(copy / "checkpoint-2")
    train(CONFIG, copy)
    assert digests(copy, 2) == expected


def test_a_finished_run_takes_no_step_more(copy):
    expected = digests(copy, 2)
    train(CONFIG, copy)
    assert checkpoints(copy)[-1][0] == 2
    assert digests(copy, 2) == expected


def test_imitation_that_was_not_finished_is_done_again(copy):
    """As it was, to the bit: all that it draws comes from the seed."""
    weights = copy / "imitation" / "adapter_model.safetensors"
    expected = weights.read_bytes()
    (copy / "imitation").rename(copy / ".imitation")
    (copy / ".imitation" / "manifest.json").unlink()
    (copy / ".imitation" / "adapter_model.safetensors").write_bytes(b"half")
    train(CONFIG, copy)
    verify(copy / "imitation")
    assert weights.read_bytes() == expected


def test_a_damaged_newest_checkpoint_is_told_of_and_trained_again(copy, caplog):
    expected = digests(copy, 2)
    (copy / "checkpoint-2" / "scheduler.pt").unlink()
    with caplog.at_level(logging.WARNING):
        train(CONFIG, copy)
    (warned,) = [r for r in caplog.records if r.name == "entrometer.training.trainer"]
    assert "scheduler.pt" in warned.getMessage()
    assert digests(copy, 2) == expected


def test_a_run_with_damaged_checkpoints_alone_is_not_begun_anew(copy):
    for step in range(3):
        (copy / f"checkpoint-{step}" / "optimizer.pt").unlink()
    with pytest.raises(InvalidValue, match=r"only damaged ones.*optimizer\.pt"):
        train(CONFIG, copy)


def test_a_directory_of_another_run_is_refused(finished):
    with pytest.raises(InvalidValue, match="another config"):
        train(replace(CONFIG, seed=1), finished)
    assert read_config(finished) == CONFIG


def test_a_prolonged_run_is_the_longer_run(finished, copy, tmp_path):
    longer = prolong(copy, 1)
    assert longer == replace(CONFIG, steps=3)
    train(longer, copy)
    assert read_config(copy) == longer
    shutil.copytree(finished / "imitation", tmp_path / "longer" / "imitation")
    train(longer, tmp_path / "longer")
    assert digests(copy, 3) == digests(tmp_path / "longer", 3)


def test_a_run_is_not_made_shorter(copy):
    with pytest.raises(InvalidValue, match=r"steps was 2 .* is 1 now"):
        train(replace(CONFIG, steps=1), copy)
    with pytest.raises(InvalidValue, match="additional steps from 0, got -1"):
        prolong(copy, -1)


def test_a_whole_model_without_imitation(tmp_path):
    config = replace(CONFIG, adapter=None, imitation=ImitationConfig(steps=0), steps=1)
    train(config, tmp_path)
    assert not (tmp_path / "imitation").exists()
    assert (tmp_path / "checkpoint-1" / "model.safetensors").is_file()


def test_a_whole_model_with_imitation_and_nothing_told_to_the_hub(
    tmp_path, monkeypatch
):
    def send(**about):
        raise AssertionError(about)

    monkeypatch.setattr("trl.trainer.base_trainer.send_telemetry", send)
    monkeypatch.delenv("CI", raising=False)
    config = replace(CONFIG, adapter=None, steps=1)
    train(config, tmp_path)
    imitated = load_policy(tmp_path / "imitation").trained()
    begun = load_policy(tmp_path / "checkpoint-0").trained()
    assert all(torch.equal(begun[name], imitated[name]) for name in imitated)


def test_an_adapter_is_as_the_config_says():
    config = replace(
        CONFIG, adapter=AdapterConfig(rank=3, alpha=5, modules=("q_proj", "up_proj"))
    )
    trained = room._fresh(config).trained()
    assert {name.split(".")[-4] for name in trained} == {"q_proj", "up_proj"}
    assert {min(value.shape) for value in trained.values()} == {3}


def test_the_level_goes_to_the_task(tmp_path, monkeypatch):
    made = {}

    def task(name, **settings):
        made.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "task", task)
    with pytest.raises(KeyboardInterrupt):
        train(replace(CONFIG, level="high"), tmp_path)
    assert made == {"level": "high"}


@pytest.mark.parametrize("way", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_noise_is_measured_where_gradients_are_whole(monkeypatch, way):
    def names(config):
        made = room._instruments(config, Letters(), room._fresh(config))
        return [type(instrument).__name__ for instrument in made]

    assert "NoiseScale" in names(CONFIG)
    # One micro-batch an update has nothing to compare.
    assert "NoiseScale" not in names(replace(CONFIG, micro_batch=8))
    monkeypatch.setenv(way, "true")
    assert "NoiseScale" not in names(CONFIG)


@pytest.mark.parametrize("way", ["ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"])
def test_predictions_are_refused_before_anything_is_done(tmp_path, monkeypatch, way):
    monkeypatch.setenv(way, "true")
    with pytest.raises(InvalidValue, match=r"expected predict_every=0.*got 3"):
        train(replace(CONFIG, predict_every=3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("way", "text", "said"),
    [
        ("ACCELERATE_USE_DEEPSPEED", "high-entropy", "got DeepSpeed.*micro_batch=N"),
        ("ACCELERATE_USE_DEEPSPEED", "clip-v:micro_batch=2", "got DeepSpeed"),
        ("ACCELERATE_USE_FSDP", "clip-v", "'concentration', got FSDP; train on one"),
    ],
)
def test_a_pass_ahead_that_cannot_be_is_refused_before_anything_is_done(
    tmp_path, monkeypatch, way, text, said
):
    monkeypatch.setenv(way, "true")
    with pytest.raises(InvalidValue, match=f"'{text}'.*{said}"):
        train(replace(CONFIG, intervention=text), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def intervened(finished, tmp_path_factory) -> Path:
    """The finished run with another loss."""
    run = tmp_path_factory.mktemp("runs") / "intervened"
    shutil.copytree(finished / "imitation", run / "imitation")
    train(replace(CONFIG, intervention="toy-lively:weight=3"), run)
    return run


def test_the_intervention_of_the_config_is_what_is_trained(finished, intervened):
    state = json.loads((intervened / "checkpoint-2/trainer_state.json").read_text())
    first, last = state["log_history"][:2]
    assert first["intervention/weight"] == 3
    assert last["intervention/weight"] > 3
    # Its bonus is on the entropy of every token.
    assert first["intervention/changed"] == 1
    before, after = (
        {n: p.clone() for n, p in load_policy(run / "checkpoint-1").trained().items()}
        for run in (finished, intervened)
    )
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_run_with_another_intervention_is_refused(intervened):
    with pytest.raises(InvalidValue, match="another config"):
        train(CONFIG, intervened)


def test_an_intervened_run_that_is_prolonged_is_the_longer_run(intervened, tmp_path):
    """For one that follows no schedule."""
    shutil.copytree(intervened, tmp_path / "copy")
    longer = prolong(tmp_path / "copy", 1)
    train(longer, tmp_path / "copy")
    shutil.copytree(intervened / "imitation", tmp_path / "longer" / "imitation")
    train(longer, tmp_path / "longer")
    assert digests(tmp_path / "copy", 3) == digests(tmp_path / "longer", 3)


@pytest.mark.parametrize(
    ("prompts", "responses", "micro_batch", "processes", "steps"),
    [
        (8, 8, 16, 1, 4),
        (8, 8, 16, 2, 2),
        (8, 8, 16, 4, 1),
        (8, 8, 64, 1, 1),
        (3, 2, 2, 3, 1),
        (6, 2, 4, 1, 3),
    ],
)
def test_micro_batches_make_up_the_update(
    prompts, responses, micro_batch, processes, steps
):
    found = accumulation_steps(
        prompts=prompts,
        responses=responses,
        micro_batch=micro_batch,
        processes=processes,
    )
    assert found == steps
    assert found * micro_batch * processes == prompts * responses


def test_a_micro_batch_that_would_cut_a_group_is_refused():
    with pytest.raises(InvalidValue, match=r"groups of 8.*micro_batch=12.*multiple"):
        accumulation_steps(prompts=8, responses=8, micro_batch=12, processes=1)


@pytest.mark.parametrize(
    ("micro_batch", "processes"), [(128, 1), (16, 3), (32, 4), (48, 1)]
)
def test_an_update_that_processes_cannot_share_is_refused(micro_batch, processes):
    with pytest.raises(InvalidValue, match=r"8 x 8 = 64 .*change prompts") as caught:
        accumulation_steps(
            prompts=8, responses=8, micro_batch=micro_batch, processes=processes
        )
    assert f"{micro_batch} x {processes} = {micro_batch * processes}" in str(
        caught.value
    )


@dataclass(frozen=True)
class Counting(Letters):
    """Keeps how often each response was judged."""

    judged: Counter[tuple[int, str]] = field(default_factory=Counter)

    def score(self, problem, response) -> Score:
        self.judged[problem.index, response] += 1
        return super().score(problem, response)


def test_a_row_has_the_prompt_and_the_place_of_its_problem():
    task = Letters()
    problems = task.problems(Split.TRAIN, 3)
    table = prompt_table(task, problems)
    assert table["prompt"][:] == ["0+train=", "1+train=", "2+train="]
    assert table["problem"][:] == [0, 1, 2]


def test_both_parts_of_the_reward_come_from_one_judgement():
    task = Counting()
    answer, format = reward_functions(task, task.problems(Split.TRAIN, 3))
    given = {"completions": ["Ab", "Ab", "7", "Ab"], "problem": [0, 0, 0, 2]}
    also = {"prompts": [""] * 4, "completion_ids": [[1]] * 4, "trainer_state": None}
    assert answer(**given, **also) == [0.25, 0.25, 0.0, 0.25]
    assert format(**given, **also) == [1.0, 1.0, 0.0, 1.0]
    # The same words may be right for one problem and wrong for another.
    assert task.judged == {(0, "Ab"): 1, (0, "7"): 1, (2, "Ab"): 1}


def test_they_are_named_for_what_they_judge():
    """TRL logs a reward under the name of its function."""
    task = Letters()
    functions = reward_functions(task, task.problems(Split.TRAIN, 1))
    assert [function.__name__ for function in functions] == ["answer", "format"]


def test_a_loss_that_reads_the_engines_log_probs_has_those_of_the_sampling(tmp_path):
    train(replace(CONFIG, intervention="tis", steps=1), tmp_path / "run")
    update = read_update(update_path(tmp_path / "run", 1))
    apart = np.concatenate(update.S_engine) - np.concatenate(update.S_old)
    # Token by token with a cache, against whole responses at once.
    assert 0 < np.abs(apart).max() < 1e-4
