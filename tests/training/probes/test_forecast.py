"""The forecast that a training logs, and its alert."""

import json
import logging
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.estimators.forecast import LEAST_STEPS, forecasts
from entrometer.runs.training_series import TrainingSeries, training_series
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.probes import Forecast
from entrometer.training.recorder import Recorder

TRAINER = SimpleNamespace(
    reward_weights=torch.tensor([1.0, 0.5]),
    accelerator=SimpleNamespace(
        reduce=lambda x, reduction: x, is_main_process=True, device="cpu"
    ),
    args=SimpleNamespace(report_to=[]),
)


def batch(H, mask, rewards):
    """A micro-batch of which the probe reads entropies, mask and rewards."""
    H, mask, rewards = torch.tensor(H), torch.tensor(mask), torch.tensor(rewards)
    rows, one = torch.arange(len(H)), torch.ones(len(H), 1, dtype=torch.long)
    nothing = torch.zeros_like(H)
    return MicroBatch(
        row=rows,
        group=rows,
        prompt_ids=one,
        prompt_mask=one,
        response_ids=mask,
        response_mask=mask,
        rewards=rewards,
        advantage=nothing,
        S=nothing,
        S_old=nothing,
        H=H,
        alpha=nothing,
        gamma=nothing,
    )


def micro(h, reward):
    """Two responses of three tokens, of which the last of the second is padding."""
    return batch(
        [[h, h, h], [h, h, 99.0]],
        [[1, 1, 1], [1, 1, 0]],
        [[reward, math.nan], [0.0, 2 * reward]],
    )


def follow(probe, entropies, rewards, first=1):
    """Show a probe an update of two micro-batches per entropy."""
    logs = []
    for step, (h, r) in enumerate(zip(entropies, rewards, strict=True), first):
        probe.micro_step(TRAINER, micro(h - 0.01, r))
        probe.micro_step(TRAINER, micro(h + 0.01, r))
        logs.append(probe.update(TRAINER, step))
    return logs


STEP = np.arange(1.0, 25.0)
FALLING = 0.9 * np.exp(-STEP / 12)
REWARD = 0.2 + 0.01 * STEP


def test_it_logs_the_forecast_of_the_series_so_far():
    logs = follow(Forecast(), FALLING, REWARD)
    assert all(log == {} for log in logs[: LEAST_STEPS - 1])
    for t in (LEAST_STEPS, 24):
        expected = forecasts(STEP[:t], FALLING[:t], REWARD[:t])
        for found in expected:
            for name in ("entropy", "reward"):
                predicted = getattr(found, name)
                label = f"forecast/{name}_{found.horizon}t"
                for end, value in (
                    ("", predicted.value),
                    ("_low", predicted.low),
                    ("_high", predicted.high),
                ):
                    assert logs[t - 1][label + end] == pytest.approx(value, rel=1e-4)
        assert len(logs[t - 1]) == 6 * len(expected)


def alerts(caplog, probe, entropies):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "entrometer"):
        follow(probe, entropies, np.full(len(entropies), 0.5))
    return [r.message for r in caplog.records]


def test_there_is_one_alert_before_a_collapse_and_none_where_entropy_holds(caplog):
    (line,) = alerts(caplog, Forecast(), FALLING)
    step = int(line.split(":")[0].removeprefix("step "))
    floor = 0.2 * FALLING[:4].mean()
    assert FALLING[step - 1] > floor
    assert f"below {floor:.3g} nats per token at step {2 * step}" in line
    assert alerts(caplog, Forecast(), np.full(24, 0.9)) == []
    assert alerts(caplog, Forecast(floor=1e-6), FALLING) == []


def test_a_collapse_that_was_not_foreseen_has_an_alert_in_other_words(caplog):
    sudden = [1.0, 0.9, 0.6, 0.3, 0.12, 0.1, 0.09, 0.05, 0.05, 0.05, 0.04]
    (line,) = alerts(caplog, Forecast(), sudden)
    assert "has been below 0.14 nats per token in the last four updates" in line
    (line,) = alerts(caplog, Forecast(floor=5.0), FALLING)
    assert line.startswith("step 4: ")


@pytest.mark.parametrize("floor", [0.0, -1.0, math.nan, math.inf])
def test_a_floor_that_no_entropy_reaches_is_refused(floor):
    with pytest.raises(InvalidValue, match="entropy above 0"):
        Forecast(floor=floor)


def test_a_training_whose_series_begins_late_has_no_forecast(caplog):
    """Resumed without recorded updates by a trainer that keeps no state."""
    probe = Forecast()
    h = 0.9 * np.exp(0.05 * np.random.default_rng(0).normal(size=24))
    with caplog.at_level(logging.WARNING, "entrometer"):
        logs = follow(probe, h, np.full(24, 0.5), first=501)
    assert not any(logs)
    assert not caplog.records


def test_a_resumed_training_has_the_series_and_the_alert(caplog):
    whole = follow(Forecast(), FALLING, REWARD)
    first, second = Forecast(), Forecast()
    follow(first, FALLING[:20], REWARD[:20])
    second.restore(json.loads(json.dumps(first.state(), allow_nan=False)))
    rest = follow(second, FALLING[20:], REWARD[20:], first=21)
    assert rest == whole[20:]
    assert alerts(caplog, second, FALLING) == []


def test_an_update_without_tokens_or_rewards_is_not_known():
    probe = Forecast()
    nothing = batch([[1.0, 1.0]], [[0, 0]], [[math.nan, math.nan]])
    probe.micro_step(TRAINER, nothing)
    assert probe.update(TRAINER, 1) == {}
    assert probe.state()["series"] == [[1.0, None, None]]


def test_a_training_logs_what_the_recorded_updates_say(make_trainer, train, tmp_path):
    trainer = make_trainer(
        Forecast(), Recorder(), max_steps=LEAST_STEPS, learning_rate=1e-2
    )
    train(trainer)
    logged = [r for r in trainer.state.log_history if "forecast/entropy_2t" in r]
    assert [row["step"] for row in logged] == [LEAST_STEPS]
    series = training_series(tmp_path)
    assert series.source == tmp_path / "updates"
    for found in forecasts(series.step, series.entropy, series.reward):
        for name in ("entropy", "reward"):
            value = logged[0].get(f"forecast/{name}_{found.horizon}t", math.nan)
            expected = getattr(found, name).value
            assert value == pytest.approx(expected, rel=1e-5, nan_ok=True)


def resumed(tmp_path, taken):
    """A trainer that went on from the step `taken` of the run in a directory."""
    args = SimpleNamespace(report_to=[], output_dir=str(tmp_path))
    state = SimpleNamespace(global_step=taken)
    return SimpleNamespace(**{**vars(TRAINER), "args": args, "state": state})


def test_a_stock_trainer_that_resumes_reads_the_updates_before(
    monkeypatch, tmp_path, caplog
):
    series = TrainingSeries(
        source=tmp_path, step=STEP, entropy=FALLING, reward=1.5 * REWARD / 2
    )
    monkeypatch.setattr(
        "entrometer.training.probes.forecast.training_series", lambda run: series
    )
    probe = Forecast()
    probe.attach(resumed(tmp_path, 20))
    assert [row[0] for row in probe.state()["series"]] == list(range(1, 21))
    with_past = follow(probe, FALLING[20:], REWARD[20:], first=21)
    assert with_past[0]
    late = Forecast()
    late.attach(resumed(tmp_path, 0))
    assert late.state()["series"] == []
    flat = replace(series, entropy=np.r_[np.full(8, 1.0), np.full(16, 0.01)])
    monkeypatch.setattr(
        "entrometer.training.probes.forecast.training_series", lambda run: flat
    )
    told = Forecast()
    told.attach(resumed(tmp_path, 20))
    assert alerts(caplog, told, np.full(4, 0.01)) == []


def test_a_trainer_that_resumes_without_a_series_begins_anew(tmp_path, caplog):
    probe = Forecast()
    with caplog.at_level(logging.WARNING, "entrometer"):
        probe.attach(resumed(tmp_path, 20))
    assert "begins anew at step 20" in caplog.text
    assert probe.state()["series"] == []
