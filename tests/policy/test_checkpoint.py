"""Checkpoints that real trainers wrote are read back as the trainers had them."""

import json
import os
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer

from entrometer.calculus import adamw_update
from entrometer.policy import (
    SourceNotFound,
    UnreadableSource,
    load_policy,
    save_tiny,
)
from entrometer.policy.adapter import CONFIG
from entrometer.policy.checkpoint import load_checkpoint, weights_key
from tests.policy.saved_models import edit, save_adapter


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


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return [save_tiny(directory / f"tiny-{seed}", seed=seed) for seed in range(2)]


def test_weights_are_known_by_content(models, tmp_path):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    (copy / "optimizer.pt").write_bytes(b"not read")
    assert weights_key(copy, None) == weights_key(models[0], None)
    assert weights_key(copy, "tiny") != weights_key(copy, None)
    assert weights_key(models[1], None) != weights_key(models[0], None)


def test_a_base_is_known_by_content_wherever_it_is(models, tmp_path):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    keys = [weights_key(models[1], base) for base in (models[0], copy, models[1])]
    assert keys[0] == keys[1] != keys[2]


def test_a_recorded_base_is_known_by_content_wherever_it_is(models, tmp_path):
    adapter = save_adapter(models[0], tmp_path / "adapter")
    edit(adapter / CONFIG, base_model_name_or_path="../base")
    keys = []
    for number, base in enumerate((models[0], models[0], models[1])):
        folder = tmp_path / str(number)
        shutil.copytree(base, folder / "base")
        shutil.copytree(adapter, folder / "adapter")
        keys.append(weights_key(folder / "adapter", None))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("name", ["model.safetensors", "generation_config.json"])
def test_one_byte_of_a_file_that_decides_is_enough(models, tmp_path, name):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert weights_key(copy, None) != weights_key(models[0], None)


def test_an_absent_checkpoint_is_named(tmp_path):
    with pytest.raises(SourceNotFound, match="checkpoint-4"):
        weights_key(tmp_path / "checkpoint-4", None)


def sharded(model, directory):
    """The same weights in two files, with an index that lists them."""
    copy = shutil.copytree(model, directory)
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(weights)
    files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in files.items():
        tensors = {name: weights[name] for name in own}
        save_file(tensors, copy / file, metadata={"format": "pt"})
    listed = {name: file for file, own in files.items() for name in own}
    write_index(copy, listed)
    return copy, listed


def write_index(directory, listed):
    index = {"metadata": {}, "weight_map": listed}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def test_the_files_that_are_hashed_are_those_that_are_loaded(models, tmp_path):
    copy, _ = sharded(models[0], tmp_path / "copy")
    before = weights_key(copy, None)
    assert torch.equal(
        load_policy(copy).head_weight, load_policy(models[0]).head_weight
    )
    # Not listed, so neither loaded nor hashed.
    (copy / "stray.safetensors").write_bytes(b"anything")
    assert weights_key(copy, None) == before
    raw = bytearray((copy / "b.safetensors").read_bytes())
    raw[-1] ^= 1
    (copy / "b.safetensors").write_bytes(raw)
    assert weights_key(copy, None) != before


def test_an_index_does_not_lead_out_of_its_directory(models, tmp_path):
    """Weights outside would be loaded, and files of the same name inside hashed."""
    copy, listed = sharded(models[0], tmp_path / "run" / "copy")
    outside = tmp_path / "out"
    outside.mkdir()
    for file in set(listed.values()):
        shutil.copy(copy / file, outside / file)
    write_index(copy, {name: f"../../out/{file}" for name, file in listed.items()})
    for read in (load_policy, lambda path: weights_key(path, None)):
        with pytest.raises(UnreadableSource, match=r"index\.json: expected plain"):
            read(copy)


@pytest.mark.parametrize(
    "listed",
    [{"a": 5}, ["a.safetensors"], {}, None, 7, {"a": ["a.safetensors"]}, {"a": ".."}],
)
def test_an_index_of_something_else_is_refused_by_name(models, tmp_path, listed):
    copy, _ = sharded(models[0], tmp_path / "copy")
    write_index(copy, listed)
    for read in (load_policy, lambda path: weights_key(path, None)):
        with pytest.raises(UnreadableSource, match=r"index\.json: expected"):
            read(copy)


def test_a_weight_in_two_files_is_refused(models, tmp_path):
    copy, _ = sharded(models[0], tmp_path / "copy")
    shutil.copy(copy / "a.safetensors", copy / "b.safetensors")
    with pytest.raises(UnreadableSource, match="each weight in one file"):
        load_policy(copy)
