"""Checkpoints that hold everything, and training that goes on from them to the bit."""

import json
import logging
import shutil

import pytest
import torch
from safetensors.torch import load_file

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy, tiny_policy
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import (
    IncompleteDirectory,
    newest_complete,
    read_update,
    update_path,
    verify,
)
from entrometer.training import Recorder, Trainer
from tests.training.toy import (
    ACCUMULATION,
    UPDATE,
    WINDOW,
    Witness,
    digests,
    make_trainer,
    train,
)

FILES = {
    "adapter_config.json",
    "adapter_model.safetensors",
    "instruments.json",
    "manifest.json",
    "optimizer.pt",
    "rng_state.pth",
    "scheduler.pt",
    "trainer_state.json",
    "window_0.pt",
}
TIMES = ("step_time", "train_runtime")


def again(path, steps, **settings):
    """The trainer of a run, made anew as after a restart."""
    witness = Witness()
    trainer = make_trainer(
        Trainer,
        path,
        steps,
        [Recorder(), witness],
        keywords={"base": "tiny"},
        **settings,
    )
    return trainer, witness


def test_a_checkpoint_holds_everything_and_nothing_else(uncut):
    for step in range(6):
        checkpoint = uncut.path / f"checkpoint-{step}"
        assert {p.name for p in checkpoint.iterdir()} == FILES
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        beside = {f"../updates/step-{step:08d}.parquet"} if step else set()
        assert manifest["files"].keys() == FILES - {"manifest.json"} | beside
        verify(checkpoint)


def test_nothing_is_left_of_saving(uncut):
    assert list((uncut.path / ".saving").iterdir()) == []
    hidden = [p.name for p in uncut.path.iterdir() if p.name.startswith(".")]
    assert hidden == [".saving"]


def test_the_first_checkpoint_is_what_training_began_with(uncut):
    weights = load_file(uncut.path / "checkpoint-0" / "adapter_model.safetensors")
    begun = tiny_policy(lora_rank=2, lora_std=0.05).trained()
    assert len(weights) == len(begun)
    for name, value in begun.items():
        assert torch.equal(weights[name.replace(".default", "")], value)
    state = json.loads((uncut.path / "checkpoint-0/trainer_state.json").read_text())
    assert state["global_step"] == 0


def test_the_window_is_kept_until_it_is_used_up(uncut):
    for step in range(6):
        path = uncut.path / f"checkpoint-{step}" / "window_0.pt"
        window = torch.load(path, weights_only=True)
        assert window["step"] == step * ACCUMULATION
        if step in (0, 4):
            assert window["inputs"] is None
            continue
        assert len(window["inputs"]) == ACCUMULATION * WINDOW
        rows = torch.cat([inputs["row"] for inputs in window["inputs"]])
        assert rows.tolist() == list(range(UPDATE * WINDOW))
        recorded = read_update(update_path(uncut.path, step))
        micro = window["inputs"][(step - 1) * ACCUMULATION % (ACCUMULATION * WINDOW)]
        assert micro["rewards"][0, 0] == recorded.rewards[0, 0]


def test_instruments_are_kept(uncut):
    for step in range(6):
        text = (uncut.path / f"checkpoint-{step}" / "instruments.json").read_text()
        assert json.loads(text) == [{}, {"count": step}]


def test_an_adapter_names_its_base_and_opens_without_being_told(uncut):
    checkpoint = uncut.path / "checkpoint-3"
    config = json.loads((checkpoint / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny"
    loaded = load_policy(checkpoint).trained()
    optimized = load_checkpoint(checkpoint)
    assert optimized.step == optimized.state.step == 3
    assert optimized.learning_rate == 3e-2
    weights = load_file(checkpoint / "adapter_model.safetensors")
    for name, value in loaded.items():
        assert torch.equal(weights[name.replace(".default", "")], value)


def test_resume_inside_a_window_leaves_the_same_bits(uncut, cut):
    """Cut in its second round; one more update is left of it, then it is renewed."""
    path = cut(3)
    trainer, witness = again(path, 5)
    torch.rand(7)
    logs = train(trainer, resume_from_checkpoint=True)
    assert digests(path, 5) == digests(uncut.path, 5)
    assert witness.count == 5
    for log, expected in zip(logs, uncut.logs, strict=True):
        assert log.keys() == expected.keys()
        for name in log.keys() - set(TIMES):
            assert log[name] == expected[name], name


def test_resume_from_the_first_checkpoint_leaves_it_as_it_was(uncut, cut):
    path = cut(0)
    before = (path / "checkpoint-0" / "manifest.json").stat().st_mtime_ns
    trainer, _ = again(path, 1)
    train(trainer, resume_from_checkpoint=True)
    assert (path / "checkpoint-0" / "manifest.json").stat().st_mtime_ns == before
    expected = digests(uncut.path, 1)
    assert digests(path, 1).items() <= expected.items()


def test_what_a_killed_save_left_is_not_part_of_the_next(cut):
    path = cut(4)
    stale = path / ".saving" / "checkpoint-5"
    stale.mkdir(parents=True)
    (stale / "rng_state_7.pth").write_bytes(b"of another run")
    trainer, _ = again(path, 5)
    train(trainer, resume_from_checkpoint=True)
    assert {p.name for p in (path / "checkpoint-5").iterdir()} == FILES


def test_a_damaged_newest_checkpoint_is_passed_over_by_name(uncut, cut, caplog):
    path = cut(5)
    optimizer = path / "checkpoint-5" / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:-1])
    trainer, _ = again(path, 5)
    with caplog.at_level(logging.WARNING):
        train(trainer, resume_from_checkpoint=True)
    (warned,) = [r for r in caplog.records if r.name == "entrometer.training.trainer"]
    assert "checkpoint-5" in warned.getMessage()
    assert "optimizer.pt" in warned.getMessage()
    assert newest_complete(path) == (path / "checkpoint-5", [])
    assert digests(path, 5) == digests(uncut.path, 5)


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "window_0.pt"])
def test_a_damaged_checkpoint_that_was_asked_for_is_refused_by_name(cut, name):
    """Before its weights are opened, whatever the damage."""
    path = cut(5)
    file = path / "checkpoint-5" / name
    file.write_bytes(file.read_bytes()[:100])
    trainer, _ = again(path, 5)
    with pytest.raises(IncompleteDirectory, match=name):
        train(trainer, resume_from_checkpoint=str(path / "checkpoint-5"))


def test_a_recorded_batch_that_is_missing_makes_its_checkpoint_incomplete(cut):
    path = cut(5)
    update_path(path, 5).unlink()
    newest, (refused,) = newest_complete(path)
    assert newest == path / "checkpoint-4"
    assert "step-00000005.parquet" in str(refused)


def test_a_run_without_a_complete_checkpoint_is_not_begun_by_accident(cut):
    path = cut(1)
    for step in (0, 1):
        (path / f"checkpoint-{step}" / "manifest.json").unlink()
    trainer, _ = again(path, 2)
    with pytest.raises(InvalidValue, match=r"checkpoint.*got none, only damaged"):
        train(trainer, resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"num_iterations": 1}, "iterations"),
        ({"steps_per_generation": 2}, "window"),
        ({"gradient_accumulation_steps": 1}, "accumulation"),
        ({"num_generations": 4}, "responses"),
        ({"per_device_train_batch_size": 8}, "micro_batch"),
    ],
)
def test_other_settings_are_refused(uncut, setting, name):
    trainer, _ = again(uncut.path, 6, **setting)
    with pytest.raises(InvalidValue, match=name):
        train(trainer, resume_from_checkpoint=True)


def test_other_instruments_are_refused(uncut):
    trainer = make_trainer(Trainer, uncut.path, 6, [Recorder()])
    with pytest.raises(InvalidValue, match="Witness"):
        train(trainer, resume_from_checkpoint=True)


def test_a_whole_model_is_trained_and_resumed_too(tmp_path):
    """No adapter: the checkpoint is a model that opens by itself."""
    path, cut_path = tmp_path / "whole", tmp_path / "cut"
    train(make_trainer(Trainer, path, 2, [Recorder()], lora_rank=None))
    shutil.copytree(path, cut_path)
    shutil.rmtree(cut_path / "checkpoint-2")
    trainer = make_trainer(Trainer, cut_path, 2, [Recorder()], lora_rank=None)
    train(trainer, resume_from_checkpoint=True)
    for name in ("model.safetensors", "optimizer.pt", "window_0.pt"):
        first = (path / "checkpoint-2" / name).read_bytes()
        assert (cut_path / "checkpoint-2" / name).read_bytes() == first
    assert load_policy(path / "checkpoint-2").tokenizer.eos_token == "<eos>"


def test_old_checkpoints_are_rotated_out(tmp_path):
    trainer, _ = again(tmp_path, 3, save_total_limit=2)
    train(trainer)
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-2",
        "checkpoint-3",
    ]
    assert newest_complete(tmp_path) == (tmp_path / "checkpoint-3", [])


def test_the_order_of_an_epoch_survives_skipped_batches_on_two_processes(
    tmp_path, monkeypatch
):
    """Accelerate hides the sampler under two wrappers, and cannot tell it the epoch."""
    import transformers
    from accelerate.data_loader import prepare_data_loader, skip_first_batches

    seen = []

    def look(self, *, epoch, train_dataloader):
        train_dataloader.set_epoch(epoch)
        seen.append([row["prompt"] for rows in train_dataloader for row in rows])

    monkeypatch.setattr(transformers.Trainer, "_run_epoch", look)
    for epoch, skipped in ((0, 0), (1, 0), (1, 1)):
        trainer, _ = again(tmp_path, 1)
        loader = prepare_data_loader(
            trainer.get_train_dataloader().base_dataloader,
            num_processes=2,
            process_index=0,
            put_on_device=False,
            rng_types=[],
        )
        loader = skip_first_batches(loader, skipped)
        trainer._run_epoch(epoch=epoch, train_dataloader=loader)
    first, whole, part = seen
    assert first != whole
    assert 0 < len(part) < len(whole)
    assert whole[-len(part) :] == part
