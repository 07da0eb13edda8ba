"""Checkpoints that real trainers wrote are read back as the trainers had them."""

import json
import os
import pickle
import shutil

import pytest
import torch
from transformers import Trainer

from entrometer.calculus import adamw_update
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.policy.sources import SourceNotFound, UnreadableSource


@pytest.fixture(params=["full", "lora"])
def trained(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def damaged(lora, tmp_path):
    """A copy of a checkpoint that a test may damage."""
    return shutil.copytree(lora.path, tmp_path / "checkpoint-3")


def test_weights_and_moments_are_the_live_ones_to_the_bit(trained):
    checkpoint = load_checkpoint(trained.path)
    live = {n: p for n, p in trained.model.named_parameters() if p.requires_grad}
    parameters = checkpoint.policy.trained()
    assert list(parameters) == list(checkpoint.state.first_moment) == list(live)
    for name, p in live.items():
        memory = trained.optimizer.state[p]
        assert torch.equal(parameters[name], p)
        assert torch.equal(checkpoint.state.first_moment[name], memory["exp_avg"])
        assert torch.equal(checkpoint.state.second_moment[name], memory["exp_avg_sq"])
        assert memory["exp_avg"].any(), name


def test_settings_are_the_live_ones(trained):
    checkpoint = load_checkpoint(trained.path)
    decay_of = {
        id(p): group["weight_decay"]
        for group in trained.optimizer.param_groups
        for p in group["params"]
    }
    live = {n: p for n, p in trained.model.named_parameters() if p.requires_grad}
    hyper = checkpoint.hyperparameters
    assert hyper.weight_decay == {n: decay_of[id(p)] for n, p in live.items()}
    assert max(hyper.weight_decay.values()) == 0.1
    assert (hyper.betas, hyper.epsilon) == ((0.9, 0.95), 1e-8)
    # Warmed up over ten steps to 1e-2: the fourth step is the one to come.
    assert checkpoint.learning_rate == trained.optimizer.param_groups[0]["lr"]
    assert checkpoint.learning_rate == pytest.approx(3e-3, rel=1e-12)
    assert (checkpoint.step, checkpoint.state.step) == (3, 3)


@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize(
    # A few units in the last place of the parameter, to which both are rounded.
    ("precision", "rtol", "atol"),
    [("float32", 5e-7, 1e-8), ("float64", 1e-15, 1e-16)],
)
def test_the_update_is_the_step_that_the_restored_optimizer_takes(
    trained, max_norm, precision, rtol, atol
):
    checkpoint = load_checkpoint(trained.path, precision=precision)
    parameters = checkpoint.policy.trained()
    generator = torch.Generator().manual_seed(7)
    gradient = {
        n: 1e-2 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for n, p in parameters.items()
    }
    update = adamw_update(
        parameters,
        gradient,
        checkpoint.state,
        checkpoint.hyperparameters,
        max_norm=max_norm,
    ).update
    before = {n: p.clone() for n, p in parameters.items()}

    model = checkpoint.policy.model
    decay = Trainer.get_decay_parameter_names(None, model)
    live = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in live.items() if n in decay]},
            {"params": [p for n, p in live.items() if n not in decay]},
        ]
    )
    optimizer.load_state_dict(
        torch.load(trained.path / "optimizer.pt", weights_only=True)
    )
    for name, p in live.items():
        p.grad = gradient[name].clone()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(list(live.values()), max_norm)
    optimizer.step()
    for name, p in live.items():
        predicted = before[name] + checkpoint.learning_rate * update.direction[name]
        assert not torch.equal(p, before[name])
        torch.testing.assert_close(p.detach(), predicted, rtol=rtol, atol=atol)


def test_training_arguments_are_never_opened(damaged, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (damaged / "training_args.bin").write_bytes(pickle.dumps(Bomb()))
    assert load_checkpoint(damaged).step == 3
    assert not (tmp_path / "ran").exists()
    (damaged / "training_args.bin").unlink()
    (damaged / "training_args.bin").mkdir()
    assert load_checkpoint(damaged).step == 3


def test_nothing_pickled_but_the_optimizer_is_needed(damaged):
    for file in ("scheduler.pt", "rng_state.pth", "training_args.bin"):
        (damaged / file).unlink()
    assert load_checkpoint(damaged).step == 3


def test_a_parameter_without_state_is_frozen(damaged):
    content = torch.load(damaged / "optimizer.pt", weights_only=True)
    del content["state"][5]
    torch.save(content, damaged / "optimizer.pt")
    checkpoint = load_checkpoint(damaged)
    assert len(checkpoint.policy.trained()) == 55
    assert list(checkpoint.policy.trained()) == list(checkpoint.state.first_moment)


def test_steps_skipped_by_the_optimizer_are_told_apart(damaged):
    state = json.loads((damaged / "trainer_state.json").read_text())
    (damaged / "trainer_state.json").write_text(json.dumps(state | {"global_step": 5}))
    checkpoint = load_checkpoint(damaged)
    assert (checkpoint.step, checkpoint.state.step) == (5, 3)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"global_step": 2}', "of different checkpoints"),
        ('{"global_step": "3"}', "expected the number of steps"),
        ("{}", "expected the number of steps"),
        ('{"global_st', "expected JSON"),
    ],
)
def test_a_wrong_trainer_state_is_refused(damaged, content, told):
    (damaged / "trainer_state.json").write_text(content)
    with pytest.raises(UnreadableSource, match=told):
        load_checkpoint(damaged)


@pytest.mark.parametrize(
    "file", ["trainer_state.json", "optimizer.pt", "adapter_model.safetensors"]
)
def test_a_part_that_is_missing_is_named(damaged, file):
    (damaged / file).unlink()
    with pytest.raises(SourceNotFound, match=file.replace(".", r"\.")):
        load_checkpoint(damaged)


def test_a_checkpoint_is_never_sought_on_the_hub(damaged, monkeypatch):
    monkeypatch.chdir(damaged.parent)
    with pytest.raises(SourceNotFound, match="no such directory"):
        load_checkpoint("someone/checkpoint-3")
    with pytest.raises(SourceNotFound, match="Did you mean 'checkpoint-3'"):
        load_checkpoint("checkpoint-30")
