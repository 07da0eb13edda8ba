"""A trainer with the loss of an intervention: the gradient is the whole update's."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.errors import InvalidValue, MissingKey
from entrometer.interventions import dr_grpo, intervention, register
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import read_update, update_path
from entrometer.training import Instrument, Recorder, Trainer
from entrometer.training.instruments import trained_policy
from entrometer.training.probes import EffectiveSampleSize
from entrometer.training.trainable import trainable
from tests.training.recorded_gradient import (
    distance,
    recorded_gradient,
    recorded_rollouts,
    recorded_tables,
    trained_gradient,
)
from tests.training.toy import ARGUMENTS, Witness, digests, make_trainer, train


@register("test-own", by_token=True)
def own(tables, *, low: float = 0.2, high: float = 0.2):
    return dr_grpo(tables, low=low, high=high)


@register("test-own-ahead")
def own_ahead(tables, *, low: float = 0.2, high: float = 0.2):
    return dr_grpo(tables, low=low, high=high)


@register("test-lot")
def lot(tables, *, share: float = 0.5):
    """Which tokens are left out is drawn by lot, and follows a schedule."""
    generator = torch.Generator().manual_seed(tables.seed)
    kept = torch.rand(tables.S.shape, generator=generator) > share * tables.progress
    return dr_grpo(tables) * kept


SEEN = []


@register("test-seen", needs=("concentration",))
def seen(tables):
    """Keeps what it is shown."""
    SEEN.append(tables)
    return dr_grpo(tables)


class Gradients(Instrument):
    """Keeps the gradient of each update, before it is clipped."""

    def __init__(self):
        self.kept = []

    def update(self, trainer, step):
        named = trainer.model.named_parameters()
        self.kept.append({n: p.grad.clone() for n, p in named if p.grad is not None})
        return {}


class OffPolicy(Trainer):
    """Responses as if an older policy had drawn them: ratios on all sides of clips."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        S = output["old_per_token_logps"]
        noise = torch.randn(S.shape, generator=torch.Generator().manual_seed(3))
        return output | {"old_per_token_logps": S + 0.3 * noise}


def gradient(run, text, *, micro=4, kind=OffPolicy, keywords=None, steps=1, **settings):
    """Of the first update of 16 responses, in 16 / micro micro-batches."""
    gradients = Gradients()
    trainer = make_trainer(
        kind,
        run,
        steps,
        [gradients],
        keywords={"intervention": text} | (keywords or {}),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=16 // micro,
        steps_per_generation=16 // micro,
        save_strategy="no",
        **settings,
    )
    logs = train(trainer)
    assert len(gradients.kept) == steps
    return gradients.kept[0], logs[0]


@pytest.mark.parametrize("name", ["test-own", "test-own-ahead"])
@pytest.mark.parametrize("micro", [2, 4, 16])
def test_dr_grpo_has_the_gradient_and_the_loss_of_trls_own(tmp_path, name, micro):
    expected, logged = gradient(tmp_path, None, micro=micro)
    found, log = gradient(tmp_path, name, micro=micro)
    assert distance(found, expected) < 1e-6
    assert log["loss"] == pytest.approx(logged["loss"], rel=1e-5)
    assert log["intervention/changed"] == 0
    assert 0.1 < logged["clip_ratio/region_mean"] < 0.9
    for metric in logged.keys() - {"step_time", "loss", "grad_norm"}:
        assert log[metric] == logged[metric], metric


def test_a_wider_clip_is_ours_and_trls_alike(tmp_path):
    expected, _ = gradient(tmp_path, None, epsilon=0.1, epsilon_high=0.4)
    found, log = gradient(tmp_path, "dr-grpo:low=0.1,high=0.4")
    assert distance(found, expected) < 1e-6
    assert 0 < log["intervention/changed"] < 0.5


def test_plain_dr_grpo_leaves_the_bits_of_trls_loss(uncut, tmp_path):
    """Five updates, ratios other than 1 among them, and what is logged."""
    trainer = make_trainer(
        Trainer,
        tmp_path,
        5,
        [Recorder(), Witness()],
        keywords={"base": "tiny", "intervention": "dr-grpo"},
    )
    logs = train(trainer)
    assert digests(tmp_path, 5) == digests(uncut.path, 5)
    assert [log.keys() for log in logs] == [log.keys() for log in uncut.logs]


@pytest.mark.parametrize(
    "text",
    [
        *("high-entropy:rho=0.4", "toy-lively", "grpo", "clip-cov:rho=0.1", "clip-v"),
        *("gspo", "gmpo:low=0.1,high=0.1", "vespo", "bapo", "stapo:unlikely=0.1"),
        *("qae", "pass-at-k", "negative-filter"),
    ],
)
def test_micro_batches_make_the_gradient_of_the_whole_batch(tmp_path, text):
    expected, whole = gradient(tmp_path, text, micro=16)
    found, log = gradient(tmp_path, text, micro=4)
    assert distance(found, expected) < 1e-6
    assert log["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert log["intervention/changed"] == whole["intervention/changed"]


def test_statistics_of_micro_batches_are_another_gradient(tmp_path):
    """The same whether they are those of the trainer or slices of a larger one."""
    text = "high-entropy:rho=0.4,micro_batch=4"
    passes = []

    class Counted(OffPolicy):
        def _look_ahead(self, n):
            passes.append(n)
            return super()._look_ahead(n)

    expected, _ = gradient(tmp_path, "high-entropy:rho=0.4")
    found, _ = gradient(tmp_path, text, kind=Counted)
    assert distance(found, expected) > 0.1
    assert passes == []
    larger, _ = gradient(tmp_path, text, micro=16, kind=Counted)
    assert distance(larger, found) < 1e-6
    smaller, _ = gradient(tmp_path, text, micro=2, kind=Counted)
    assert distance(smaller, found) < 1e-6
    assert passes == [8]


def test_dropout_leaves_out_the_same_in_the_pass_ahead(tmp_path):
    """So the policy that is looked at is the one that is updated."""

    class Dropping(OffPolicy):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            for layer in trained_policy(self, "test").body.layers:
                layer.self_attn.attention_dropout = 0.3

    expected, _ = gradient(tmp_path, "test-own", kind=Dropping)
    found, _ = gradient(tmp_path, "test-own-ahead", kind=Dropping)
    assert distance(found, expected) < 1e-6
    kept, _ = gradient(tmp_path, "test-own")
    assert distance(found, kept) > 0.1


@pytest.fixture(scope="module")
def lively(tmp_path_factory):
    """Five updates in two windows with an intervention that adapts."""
    path = tmp_path_factory.mktemp("run") / "lively"
    with torch.random.fork_rng(devices=[]):
        logs = train(trainer_of(path, 5))
    return path, logs


def trainer_of(path, steps, text="toy-lively", **settings):
    return make_trainer(
        Trainer,
        path,
        steps,
        [Recorder(), EffectiveSampleSize()],
        keywords={"base": "tiny", "intervention": text},
        max_grad_norm=0.0,
        **settings,
    )


def test_the_gradient_follows_from_the_recorded_rows(lively):
    """By a pass of another kind, with the settings of each step."""
    path, logs = lively
    for step in range(1, 6):
        weight = logs[step - 1]["intervention/weight"]
        chosen = replace(
            intervention("toy-lively"), settings=(("weight", weight), ("bonus", 0.05))
        )
        expected = recorded_gradient(path, step, chosen, steps=5)
        assert distance(trained_gradient(path, step), expected) < 1e-5


def test_settings_follow_the_entropy_of_each_update(lively):
    path, logs = lively
    weight = 0.5
    for step, log in enumerate(logs, start=1):
        assert log["intervention/weight"] == weight
        assert log["intervention/bonus"] == 0.05
        batch = read_update(update_path(path, step))
        tables = recorded_tables(batch, seed=step, progress=0.0)
        weight += tables.mean_entropy / 7
        kept = json.loads((path / f"checkpoint-{step}/intervention.json").read_text())
        assert kept["weight"] == pytest.approx(weight, rel=1e-12)
        weight = kept["weight"]


def test_what_is_logged_is_of_the_whole_update(lively):
    path, logs = lively
    weight = logs[2]["intervention/weight"]
    batch = read_update(update_path(path, 3))
    tables = recorded_tables(batch, seed=3, progress=0.4)
    (alpha, gamma), plain = (
        intervention(text).coefficients(tables)[:2]
        for text in (f"toy-lively:weight={weight!r}", "dr-grpo")
    )
    changed = ((alpha != plain[0]) | (gamma != plain[1])).sum() / tables.mask.sum()
    assert logs[2]["intervention/changed"] == pytest.approx(float(changed))
    # Its bonus is on the entropy of every token; the weights of some differ too.
    assert changed == 1
    assert 0.05 < (alpha != plain[0]).sum() / tables.mask.sum() < 0.95
    tokens = alpha.abs().sum() ** 2 / alpha.square().sum()
    logged = logs[2]["effective_samples/tokens"]
    assert logged == pytest.approx(float(tokens), rel=1e-5)


@pytest.mark.parametrize("step", [0, 3])
def test_a_killed_run_that_adapts_goes_on_to_the_same_bits(lively, tmp_path, step):
    path, logs = lively
    shutil.copytree(path, tmp_path / "cut")
    for later in range(step + 1, 6):
        shutil.rmtree(tmp_path / "cut" / f"checkpoint-{later}")
    trainer = trainer_of(tmp_path / "cut", 5)
    torch.rand(7)
    again = train(trainer, resume_from_checkpoint=True)
    assert digests(tmp_path / "cut", 5) == digests(path, 5)
    assert "intervention.json" in digests(path, 5)
    for log, expected in zip(again, logs, strict=True):
        times = {"step_time", "train_runtime"}
        assert all(log[k] == expected[k] for k in expected.keys() - times)


def test_lots_and_schedules_follow_the_step(tmp_path):
    """Seeded by the number of the step; the first one has nothing behind it."""
    logs = train(trainer_of(tmp_path, 4, "test-lot"))
    assert logs[0]["intervention/changed"] == 0
    assert logs[3]["intervention/changed"] > 0
    for step in (2, 4):
        expected = recorded_gradient(tmp_path, step, intervention("test-lot"), steps=4)
        assert distance(trained_gradient(tmp_path, step), expected) < 1e-5


def test_tables_are_those_of_the_recorded_rows(tmp_path):
    """In the order of the rows; the concentration by a pass of its own."""
    SEEN.clear()
    train(trainer_of(tmp_path, 2, "test-seen"))
    batch = read_update(update_path(tmp_path, 2))
    expected, found = recorded_tables(batch, seed=2, progress=0.5), SEEN[-1]
    for name in ("S", "H", "S_old", "A", "mask", "group"):
        x, y = (getattr(tables, name) for tables in (found, expected))
        if name != "group":
            x, y = x[found.mask], y[expected.mask]
        assert torch.equal(x, y), name
    assert (found.seed, found.progress) == (2, 0.5)
    assert found.length_limit == expected.length_limit
    policy = load_checkpoint(tmp_path / "checkpoint-1").policy
    surplus = passes.concentration(policy, recorded_rollouts(batch)).surplus
    counted = torch.tensor(np.concatenate(batch.counted))
    torch.testing.assert_close(
        found.concentration[found.mask],
        torch.tensor(surplus)[counted],
        rtol=1e-5,
        atol=1e-6,
    )
    assert found.concentration[found.mask].abs().max() > 0.01


@pytest.mark.parametrize(
    "text", ["dr-grpo", "toy-lively:bonus=0.06", "toy-lively:micro_batch=4", "test-own"]
)
def test_another_intervention_does_not_go_on_with_a_run(lively, text):
    path, _ = lively
    with pytest.raises(InvalidValue, match="toy-lively"):
        train(trainer_of(path, 6, text), resume_from_checkpoint=True)


def test_an_intervention_does_not_go_on_with_a_plain_run(uncut):
    trainer = make_trainer(
        Trainer,
        uncut.path,
        6,
        [Recorder(), Witness()],
        keywords={"intervention": "toy-lively"},
    )
    with pytest.raises(InvalidValue, match="toy-lively"):
        train(trainer, resume_from_checkpoint=True)


@pytest.mark.slow
def test_a_bonus_keeps_entropy(tmp_path):
    """The same seed, with and without."""
    found = {}
    for text in ("dr-grpo", "entropy-bonus:alpha=0.3"):
        path = tmp_path / text[:3]
        logs = train(trainer_of(path, 30, text, learning_rate=1e-2, save_steps=30))
        found[text] = [log["entropy"] for log in logs]
    plain, kept = (sum(x[-5:]) / 5 for x in found.values())
    assert found["dr-grpo"][0] == found["entropy-bonus:alpha=0.3"][0]
    assert plain < 0.7 * found["dr-grpo"][0]
    assert kept > 1.3 * plain


@pytest.mark.parametrize(
    "setting",
    [
        {"loss_type": "grpo"},
        {"scale_rewards": "group"},
        {"beta": 0.1},
        {"delta": 2.0},
        {"top_entropy_quantile": 0.2},
        {"entropy_coef": 0.1},
        {"off_policy_mask_threshold": 0.5},
    ],
)
def test_what_trl_would_add_to_the_loss_is_refused(tmp_path, setting):
    (name,) = setting
    asked = ARGUMENTS.get(name)
    with pytest.raises(
        InvalidValue, match=f"expected {name}=.*change either"
    ) as caught:
        make_trainer(
            Trainer, tmp_path, 1, keywords={"intervention": "test-own"}, **setting
        )
    assert repr(setting[name]) in str(caught.value)
    if asked is not None:
        assert repr(asked) in str(caught.value)


def test_an_update_of_two_rounds_of_sampling_is_refused(tmp_path):
    """For one that looks ahead: what it would look at is not sampled yet."""
    settings = {"gradient_accumulation_steps": 4, "steps_per_generation": 2}

    def make(text):
        return make_trainer(
            Trainer, tmp_path, 1, keywords={"intervention": text}, **settings
        )

    make("test-own")
    with pytest.raises(InvalidValue, match=r"steps=4.*test-own-ahead.*got 2; change"):
        make("test-own-ahead")


def test_a_name_that_is_not_known_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(MissingKey, match=r"Did you mean 'dr-grpo'\?"):
        make_trainer(Trainer, tmp_path, 1, keywords={"intervention": "dr-gpro"})


def test_a_table_that_no_training_has_is_refused():
    with pytest.raises(
        InvalidValue, match=r"got 'frontier', which needs .*'influence'"
    ):
        trainable("frontier")
