"""Names for the numbered state of an optimizer; any state that is not AdamW's."""

import copy
import os
import pickle
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, Trainer

from entrometer.policy.optimizer_state import (
    AdamWSettings,
    common_settings,
    decay_groups,
    one_step,
    read_optimizer_state,
    read_settings,
)
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.policy.tiny import tiny_policy


def twice(content):
    params = content["param_groups"][0]["params"]
    params[1] = params[0]


def nested():
    """Lists that hold one another twice: their text would have 2^60 entries."""
    inside = [0]
    for _ in range(60):
        inside = [inside, inside]
    return inside


def trainers_groups(model):
    """What the Trainer itself takes for its two groups, by name."""
    decay = Trainer.get_decay_parameter_names(None, model)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [n for n, _ in named if n in decay], [n for n, _ in named if n not in decay]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma2", "gpt2", "opt"])
def test_groups_are_the_trainers(kind):
    config = AutoConfig.for_model(
        kind,
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        ffn_dim=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        word_embed_proj_dim=16,
    )
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(config)
    decay, no_decay = decay_groups(model)
    assert (decay, no_decay) == trainers_groups(model)
    assert decay
    assert no_decay


def test_groups_of_an_adapter_are_the_trainers():
    config = LoraConfig(
        target_modules=["q_proj"],
        bias="all",
        modules_to_save=["post_attention_layernorm"],
    )
    with torch.random.fork_rng(devices=[]):
        model = get_peft_model(tiny_policy().model, config)
    decay, no_decay = decay_groups(model)
    assert (decay, no_decay) == trainers_groups(model)
    assert {n.split(".")[-1] for n in no_decay} == {"bias", "weight"}


class Optimized:
    """A small adapter and its optimizer, grouped as the Trainer does, two steps in."""

    def __init__(self, cls=torch.optim.AdamW, skip=(), **settings):
        self.model = tiny_policy(lora_rank=1, lora_std=0.1).model
        parameters = dict(self.model.named_parameters())
        decay, no_decay = decay_groups(self.model)
        groups = [
            {"params": [parameters[n] for n in decay], "weight_decay": 0.1},
            {"params": [parameters[n] for n in no_decay], "weight_decay": 0.0},
        ]
        self.optimizer = cls(groups, **({"lr": 1e-3} | settings))
        generator = torch.Generator().manual_seed(0)
        for _ in range(2):
            for i, name in enumerate(decay):
                if i not in skip:
                    shape = parameters[name].shape
                    parameters[name].grad = torch.randn(shape, generator=generator)
            self.optimizer.step()
        self.names = decay

    def save(self, path, change=None):
        content = copy.deepcopy(self.optimizer.state_dict())
        if change is not None:
            change(content)
        torch.save(content, path / "optimizer.pt")
        return path / "optimizer.pt"


def every_moment(path, model):
    """Values are checked when they are asked for."""
    state = read_optimizer_state(path, model).state
    return [*state.first_moment.values(), *state.second_moment.values()]


def test_settings_are_those_of_the_groups(tmp_path):
    made = Optimized(betas=(0.8, 0.95), eps=1e-6)
    read = read_optimizer_state(made.save(tmp_path), made.model)
    assert read.state.step == 2
    assert read.hyperparameters.betas == (0.8, 0.95)
    assert read.hyperparameters.epsilon == 1e-6
    assert read.hyperparameters.weight_decay == dict.fromkeys(made.names, 0.1)
    assert read.learning_rate == 1e-3
    assert read.untouched == ()


@pytest.mark.parametrize(
    "settings",
    [{"fused": True}, {"foreach": True}, {"lr": torch.tensor(1e-3), "foreach": False}],
)
def test_every_implementation_of_adamw_is_accepted(tmp_path, settings):
    made = Optimized(**settings)
    read = read_optimizer_state(made.save(tmp_path), made.model)
    assert read.learning_rate == pytest.approx(1e-3, rel=1e-7)


def test_adam_without_decay_is_accepted(tmp_path):
    made = Optimized(torch.optim.Adam)

    def no_decay(content):
        content["param_groups"][0]["weight_decay"] = 0.0

    read = read_optimizer_state(made.save(tmp_path, no_decay), made.model)
    assert set(read.hyperparameters.weight_decay.values()) == {0.0}


def test_before_the_first_step_the_state_is_fresh(tmp_path):
    made = Optimized()
    path = made.save(tmp_path, lambda content: content["state"].clear())
    read = read_optimizer_state(path, made.model)
    assert read.state.step == 0
    assert read.untouched == ()
    assert list(read.state.first_moment) == made.names
    assert not any(m.any() for m in read.state.first_moment.values())
    assert not any(m.any() for m in read.state.second_moment.values())
    assert read.hyperparameters.weight_decay == dict.fromkeys(made.names, 0.1)
    assert read_settings(path).learning_rate == 1e-3


def test_a_parameter_that_never_had_a_gradient_is_left_out_and_named(tmp_path):
    made = Optimized(skip=(3,))
    read = read_optimizer_state(made.save(tmp_path), made.model)
    assert read.untouched == (made.names[3],)
    expected = [n for n in made.names if n != made.names[3]]
    assert list(read.state.first_moment) == expected
    assert list(read.state.second_moment) == expected
    assert list(read.hyperparameters.weight_decay) == expected


@pytest.mark.parametrize(
    ("saved", "model", "expected"),
    [
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
    ],
)
def test_moments_are_widened_and_never_rounded(tmp_path, saved, model, expected):
    made = Optimized()

    def round_moments(content):
        for entry in content["state"].values():
            entry |= {k: entry[k].to(saved) for k in ("exp_avg", "exp_avg_sq")}

    path = made.save(tmp_path, round_moments)
    read = read_optimizer_state(path, made.model.to(model))
    stored = torch.load(path, weights_only=True)["state"][0]["exp_avg"]
    moment = read.state.first_moment[made.names[0]]
    assert moment.dtype is expected
    assert torch.equal(moment, stored.to(expected))


@pytest.mark.parametrize(
    ("cls", "settings", "got"),
    [
        (torch.optim.AdamW, {"amsgrad": True}, "amsgrad or maximize"),
        (torch.optim.AdamW, {"maximize": True}, "amsgrad or maximize"),
        (torch.optim.Adam, {}, "part of the gradient"),
        (torch.optim.RAdam, {}, "no amsgrad"),
        (torch.optim.NAdam, {}, "no amsgrad"),
        (torch.optim.SGD, {"momentum": 0.9}, "no amsgrad, betas, eps"),
        (torch.optim.Adafactor, {}, "no amsgrad, betas"),
    ],
)
def test_any_other_optimizer_is_refused(tmp_path, cls, settings, got):
    made = Optimized(cls, **settings)
    with pytest.raises(UnreadableSource, match=rf"expected torch's AdamW.*{got}"):
        read_optimizer_state(made.save(tmp_path), made.model)


def first_moment(content):
    return content["state"][0]["exp_avg"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c["state"][0].pop("exp_avg"), r"got state \['exp_avg_sq', 'step'\]"),
        (lambda c: c["state"][0].update(state1=1), "state1"),
        (lambda c: c["state"][0].update(exp_avg=torch.ones(2)), r"expected shape \(1"),
        (lambda c: c["state"][1]["exp_avg"].fill_(torch.nan), "no training gives"),
        (lambda c: c["state"][1]["exp_avg_sq"].fill_(-1.0), "negative square"),
        (lambda c: c["state"][0]["step"].fill_(7.0), r"one number of steps.*\[2, 7\]"),
        (
            lambda c: c["state"].update({99: c["state"][0]}),
            "1 parameters that are in no",
        ),
        (lambda c: c["param_groups"].pop(), r"groups of \[56, 0\].*got \[56\]"),
        (lambda c: c["param_groups"][0]["params"].pop(), r"got \[55, 0\]"),
        (lambda c: c.pop("param_groups"), "expected a list of parameter groups"),
        (lambda c: c.update(param_groups=5), "expected a list of parameter groups"),
        (lambda c: c.update(state=[1]), "expected the `state_dict`"),
        (lambda c: c["state"][0].update(exp_avg="a"), "no tensor of real numbers"),
        (
            lambda c: c["state"][0].update(exp_avg=first_moment(c).to(torch.complex64)),
            "no tensor of real numbers",
        ),
        (
            lambda c: c["state"][0].update(exp_avg=first_moment(c).to("meta")),
            "no tensor of real numbers",
        ),
        (lambda c: c["state"][0]["step"].fill_(torch.nan), "a whole number of steps"),
        (lambda c: c["state"][0].update(step="2"), "a whole number of steps"),
        (lambda c: twice(c), "listed twice"),
        (lambda c: c["param_groups"][0].update(params=5), "lists of parameters"),
        (lambda c: c["param_groups"][0].update(lr="a"), "number from 0 for lr"),
        (lambda c: c["param_groups"][0].update(lr=torch.nan), "number from 0 for lr"),
        (lambda c: c["param_groups"][0].update(lr=nested()), "number from 0 for lr"),
        (lambda c: c["param_groups"][0].update(betas=5), "betas 5"),
        (lambda c: c["param_groups"][0].update(betas=(1.0, 0.9)), "betas below 1"),
    ],
)
def test_state_that_does_not_belong_is_refused(tmp_path, change, told):
    made = Optimized()
    with pytest.raises(UnreadableSource, match=told) as caught:
        every_moment(made.save(tmp_path, change), made.model)
    assert str(tmp_path / "optimizer.pt") in str(caught.value)


def test_groups_with_different_settings_are_refused(full, tmp_path):
    content = full.optimizer.state_dict()
    content["param_groups"][1]["lr"] = 1.0
    torch.save(content, tmp_path / "optimizer.pt")
    with pytest.raises(UnreadableSource, match="one learning rate"):
        read_optimizer_state(tmp_path / "optimizer.pt", full.model)


def test_state_of_another_model_is_refused(full, tmp_path):
    made = Optimized()
    torch.save(full.optimizer.state_dict(), tmp_path / "optimizer.pt")
    with pytest.raises(UnreadableSource, match=r"\[56, 0\] parameters.*this model"):
        read_optimizer_state(tmp_path / "optimizer.pt", made.model)


@pytest.mark.parametrize("kept", [0, 100, 20_000])
def test_a_truncated_file_is_refused(tmp_path, kept):
    made = Optimized()
    path = made.save(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UnreadableSource, match="not a whole file of tensors"):
        read_optimizer_state(path, made.model)


def test_a_missing_file_says_why_it_may_be_missing(tmp_path):
    with pytest.raises(SourceNotFound, match=r"save_only_model=True.*DeepSpeed"):
        read_optimizer_state(tmp_path / "optimizer.pt", Optimized().model)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    "save", [torch.save, lambda x, p: p.write_bytes(pickle.dumps(x))]
)
def test_code_in_the_file_is_not_run(tmp_path, save):
    save({"state": Bomb(tmp_path / "ran")}, tmp_path / "optimizer.pt")
    with pytest.raises(UnreadableSource, match="not a whole file of tensors"):
        read_optimizer_state(tmp_path / "optimizer.pt", Optimized().model)
    assert not (tmp_path / "ran").exists()


FUSED = {
    "lr": 1e-3,
    "betas": [0.9, 0.99],
    "eps": 1e-8,
    "weight_decay": 0.1,
    "bias_correction": True,
}
PATH = Path("optimizer.pt")


def test_a_fused_group_needs_no_list_of_parameters_and_no_amsgrad():
    found = common_settings(PATH, [FUSED, {**FUSED, "weight_decay": 0.0}])
    assert found == AdamWSettings(1e-3, (0.9, 0.99), 1e-8)


def test_an_empty_group_has_no_say():
    empty = {**FUSED, "lr": 7.0, "params": []}
    assert common_settings(PATH, [FUSED, empty]).learning_rate == 1e-3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bias_correction": False}, "not corrected"),
        ({"decoupled_weight_decay": False}, "part of the gradient"),
        ({"maximize": True}, "amsgrad or maximize"),
    ],
)
def test_what_steps_otherwise_is_refused(change, told):
    with pytest.raises(UnreadableSource, match=told):
        common_settings(PATH, [{**FUSED, **change}])


def test_no_group_at_all_is_refused():
    with pytest.raises(UnreadableSource, match=r"one learning rate.*got \[\]"):
        common_settings(PATH, [])


def test_steps_must_agree():
    assert one_step(PATH, [3, 3]) == 3
    for steps in ([], [2, 3]):
        with pytest.raises(UnreadableSource, match="one number of steps"):
            one_step(PATH, steps)
