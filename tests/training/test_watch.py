"""`em.watch` on a stock trainer: the same training, recorded, logged and warned of."""

import logging
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import entrometer as em
from entrometer.errors import InvalidValue
from entrometer.runs import read_update, update_path
from entrometer.runs.updates import require_usable
from entrometer.training.probes import PredictedChange
from entrometer.training.probes.predicted_change import Predicted
from entrometer.training.watch_trl import _Alert
from tests.training.toy import ARGUMENTS, PROMPTS, letters, quietly

SETTINGS = ARGUMENTS | {"reward_weights": [1.0], "max_steps": 4, "learning_rate": 1e-2}


def stock(directory, *, reward=letters, **settings):
    """TRL's own trainer of the tiny policy, as a user would make it."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    policy = em_policy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=GRPOConfig(output_dir=str(directory), **(SETTINGS | settings)),
            train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
            reward_funcs=reward,
        )


def em_policy():
    from entrometer.policy import tiny_policy

    return tiny_policy()


def trained(trainer):
    with quietly(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trainer.train()
    return trainer


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    trainer = stock(tmp_path_factory.mktemp("watched"))
    return trained(em.watch(trainer, predict_every=2, prompts=4))


def test_the_training_is_the_same_to_the_bit(watched, tmp_path):
    bare = trained(stock(tmp_path))
    pairs = zip(watched.model.parameters(), bare.model.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)
    own = [log for log in bare.state.log_history if "loss" in log]
    with_more = [log for log in watched.state.log_history if "loss" in log]
    for mine, theirs in zip(with_more, own, strict=True):
        for name in theirs.keys() - {"step_time"}:
            assert mine[name] == theirs[name], name


def test_every_update_is_recorded_with_the_weights_of_its_loss(watched):
    for step in range(1, 5):
        path = update_path(watched.args.output_dir, step)
        batch = read_update(path)
        require_usable(path, batch)
        assert batch.settings.loss.startswith("TRL ")
        assert "loss_type=dr_grpo, scale_rewards=none" in batch.settings.loss
        assert batch.settings.max_grad_norm == 1.0
        assert any(np.abs(row).max() > 0 for row in batch.alpha)
        for alpha, counted in zip(batch.alpha, batch.counted, strict=True):
            assert (alpha[~counted] == 0).all()


def test_metrics_are_logged_with_the_trainers_own(watched):
    logs = [log for log in watched.state.log_history if "loss" in log]
    for log in logs:
        assert 0 <= log["signal/groups"] <= 1
        assert log["entropy/token_se"] > 0
    assert "noise_scale/B_simple" in logs[-1]
    predicted = [log for log in logs if "predicted_change/predicted" in log]
    assert [log["step"] for log in predicted] == [2, 4]
    for log in predicted:
        parts = log["predicted_change/batch"] + log["predicted_change/momentum"]
        assert parts == pytest.approx(log["predicted_change/predicted"])
        assert log["predicted_change/momentum"] != 0


def test_a_drain_beyond_the_threshold_raises_an_alert(tmp_path, caplog):
    trainer = em.watch(
        stock(tmp_path, max_steps=1), predict_every=1, prompts=4, alert_below=1e9
    )
    with caplog.at_level(logging.WARNING, "entrometer"):
        trained(trainer)
    (line,) = [
        r.message for r in caplog.records if "is predicted to change" in r.message
    ]
    assert "step 1" in line
    assert "entrometer diagnose" in line


def test_a_probe_that_cannot_measure_is_left_out_with_a_word(tmp_path, caplog):
    settings = {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 8}
    trainer = stock(tmp_path, max_steps=1, steps_per_generation=2, **settings)
    em.watch(trainer, predict_every=0)
    with caplog.at_level(logging.WARNING, "entrometer"):
        trained(trainer)
    (line,) = [r.message for r in caplog.records if "not logged" in r.message]
    assert "NoiseScale" in line
    assert read_update(update_path(tmp_path, 1)).alpha is not None


def test_a_loss_beyond_tokens_is_recorded_and_refused_by_name(tmp_path):
    trainer = stock(tmp_path, max_steps=1)
    mlp = trainer.model.model.layers[0].mlp
    mlp.act_fn = torch.nn.Sequential(mlp.act_fn, torch.nn.Dropout(0.1))
    trained(em.watch(trainer, predict_every=0))
    path = update_path(tmp_path, 1)
    with pytest.raises(InvalidValue, match=r"dropout of 0\.1.*train without it"):
        require_usable(path, read_update(path))


def test_a_trainer_is_watched_once(tmp_path):
    trainer = em.watch(stock(tmp_path), predict_every=0)
    with pytest.raises(InvalidValue, match="call watch once"):
        em.watch(trainer)


def test_what_is_no_trainer_of_trl_is_refused():
    with pytest.raises(InvalidValue, match=r"expected TRL's GRPOTrainer.*got a list"):
        em.watch([])


def test_a_stream_of_prompts_is_refused_with_the_remedy(tmp_path):
    trainer = stock(tmp_path)
    trainer.train_dataset = iter([])
    with pytest.raises(InvalidValue, match="pass predict_every=0"):
        em.watch(trainer)


@pytest.mark.parametrize(("error", "alerted"), [(0.01, True), (0.04, False)])
def test_a_drain_within_its_error_of_the_threshold_is_no_alert(caplog, error, alerted):
    found = Predicted(step=3, value=-0.1, standard_error=error)
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(is_main_process=True),
        args=SimpleNamespace(report_to=[]),
    )
    with caplog.at_level(logging.WARNING, "entrometer"):
        probe = PredictedChange(every=1, prompts=[[1], [2]])
        probe.last = found
        _Alert(probe, -0.05).updated(trainer, 3)
    assert bool(caplog.records) == alerted


def test_a_new_training_in_the_directory_of_another_is_refused(watched):
    trainer = em.watch(stock(watched.args.output_dir, max_steps=1), predict_every=0)
    with pytest.raises(InvalidValue, match="another output directory"):
        trained(trainer)
    assert update_path(watched.args.output_dir, 4).is_file()
