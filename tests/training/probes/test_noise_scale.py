import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from entrometer.errors import InvalidValue
from entrometer.estimators import noise_scale, noise_scale_moments
from entrometer.tokens import dr_grpo_loss
from entrometer.training.micro_batch import MicroBatch
from entrometer.training.probes import NoiseScale
from tests.calculus.gradient_norms import squared_norms

GROUP = 3


def group_gradients(trainer, micros):
    """Dr-GRPO's gradient of each prompt group, by a backward of its own."""
    trained = {n: p for n, p in trainer.model.named_parameters() if p.requires_grad}
    for micro in micros:
        ids = torch.cat([micro.prompt_ids, micro.response_ids], dim=1)
        attended = torch.cat([micro.prompt_mask, micro.response_mask], dim=1)
        T = micro.response_ids.shape[1]
        for first in range(0, len(ids), GROUP):
            rows = slice(first, first + GROUP)
            assert micro.group[rows].unique().numel() == 1
            logits = trainer.model(
                input_ids=ids[rows], attention_mask=attended[rows]
            ).logits[:, -T - 1 : -1]
            log_p = (logits / trainer.temperature).log_softmax(dim=-1)
            S = log_p.gather(-1, micro.response_ids[rows, :, None])[..., 0]
            loss = dr_grpo_loss(
                S,
                S.detach(),
                micro.advantage[rows, 0],
                micro.response_mask[rows].bool(),
                length_limit=trainer.max_completion_length,
            )
            grads = torch.autograd.grad(loss, list(trained.values()))
            yield dict(zip(trained, grads, strict=True))


def mean(gradients):
    return {n: sum(g[n] for g in gradients) / len(gradients) for n in gradients[0]}


@pytest.mark.parametrize(
    ("groups", "lora_rank", "settings"),
    [
        (1, 4, {}),
        (2, 4, {}),
        (2, None, {}),
        (1, 4, {"gradient_checkpointing": True}),
    ],
)
def test_moments_are_those_of_gradients_taken_group_by_group(
    make_trainer, train, witness, groups, lora_rank, settings
):
    trainer = make_trainer(
        NoiseScale(),
        witness,
        lora_rank=lora_rank,
        per_device_train_batch_size=GROUP * groups,
        temperature=0.8,
        learning_rate=0.0,
        **settings,
    )
    (log,) = train(trainer)
    single = list(group_gradients(trainer, witness.micros))
    assert len(single) == 4 * groups
    parts = [mean(single[i : i + groups]) for i in range(0, len(single), groups)]
    norms = squared_norms(parts, groups_per_part=groups)
    trace, signal = noise_scale_moments(
        np.array([norms.small]), np.array([norms.large]), b=groups, B=4 * groups
    )
    assert log["noise_scale/trace"] == pytest.approx(trace[0], rel=1e-5)
    assert log["noise_scale/signal"] == pytest.approx(signal[0], rel=1e-5)


def test_the_running_ratio_is_of_averages_and_survives_a_restart(make_trainer, train):
    probe = NoiseScale()
    trainer = make_trainer(probe, max_steps=4, learning_rate=0.0, temperature=0.2)
    logs = train(trainer)
    trace, signal = (
        np.array([log[f"noise_scale/{name}"] for log in logs])
        for name in ("trace", "signal")
    )
    assert signal.mean() > 0
    assert probe.estimate().value == pytest.approx(trace.mean() / signal.mean())
    assert logs[-1]["noise_scale/B_simple"] == probe.estimate().value
    assert logs[-1]["noise_scale/B_simple_se"] == probe.estimate().standard_error
    again = NoiseScale()
    again.restore(json.loads(json.dumps(probe.state())))
    assert again.estimate() == probe.estimate()


def stub(model, *, scaler=None, processes=1, **changed):
    """As much of a trainer as the instrument looks at."""
    settings = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 3,
        "distributed_type": "NO",
    } | changed
    return SimpleNamespace(
        model=model,
        num_generations=2,
        args=SimpleNamespace(**settings),
        accelerator=SimpleNamespace(
            gather=lambda x: x,
            scaler=scaler,
            device=torch.device("cpu"),
            num_processes=processes,
            distributed_type=SimpleNamespace(value=settings["distributed_type"]),
        ),
    )


IDS, TABLE = torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1)
MICRO = MicroBatch(
    row=torch.arange(2),
    group=torch.zeros(2, dtype=torch.long),
    prompt_ids=IDS,
    prompt_mask=IDS,
    response_ids=IDS,
    response_mask=IDS,
    rewards=TABLE,
    advantage=TABLE,
    S=TABLE,
    S_old=TABLE,
    H=TABLE,
    alpha=TABLE,
    gamma=TABLE,
)


def three_micro_batches(probe, trainer, x, scale=1.0):
    for x_i in x:
        (trainer.model(x_i).sum() / 3 * scale).backward()
        probe.micro_step(trainer, MICRO)
    return probe.update(trainer, 1)


def test_the_scale_of_float16_training_does_not_show():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(5, 2)
    found = []
    for scale in (1.0, 2.0**16):
        trainer = stub(model, scaler=SimpleNamespace(get_scale=lambda s=scale: s))
        probe = NoiseScale()
        probe.attach(trainer)
        model.zero_grad()
        found.append(three_micro_batches(probe, trainer, x, scale))
    assert found[0]["noise_scale/trace"] > 0
    for name in ("noise_scale/trace", "noise_scale/signal"):
        assert found[1][name] == pytest.approx(found[0][name], rel=1e-6)


def test_an_update_that_overflowed_is_left_out():
    model = nn.Linear(5, 2)
    trainer, probe = stub(model), NoiseScale()
    probe.attach(trainer)
    assert three_micro_batches(probe, trainer, torch.full((3, 5), math.inf)) == {}
    assert probe.state()["kept"] == []


def test_only_the_last_updates_of_the_window_count():
    probe = NoiseScale(window=2)
    kept = [[3.0, 1.0], [2.0, 1.0], [5.0, 2.0]]
    probe.restore({"sizes": [1, 4], "kept": kept})
    small, large = np.array(kept[1:]).T
    assert probe.estimate() == noise_scale(small, large, b=1, B=4)


def test_a_shorter_last_update_is_measured_but_not_averaged():
    model = nn.Linear(5, 2)
    trainer = stub(model, gradient_accumulation_steps=4)
    probe = NoiseScale()
    probe.attach(trainer)
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    assert three_micro_batches(probe, trainer, x)["noise_scale/trace"] > 0
    assert probe.state()["kept"] == []


def test_a_backward_of_somebody_else_between_updates_does_not_show():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(5, 2)
    trainer, probe = stub(model), NoiseScale()
    probe.attach(trainer)
    expected = three_micro_batches(probe, trainer, x)
    model.zero_grad()
    torch.autograd.grad(model(100 * x[0]).sum(), list(model.parameters()))
    found = three_micro_batches(probe, trainer, x)
    assert found["noise_scale/trace"] == expected["noise_scale/trace"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"per_device_train_batch_size": 3}, "a multiple of 2"),
        ({"gradient_accumulation_steps": 1}, "halve per_device_train_batch_size"),
        ({"distributed_type": "FSDP"}, "got FSDP; train on one process"),
        ({"distributed_type": "DEEPSPEED"}, "got DEEPSPEED; train on one process"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_remedy(changed, message):
    with pytest.raises(InvalidValue, match=message):
        NoiseScale().attach(stub(nn.Linear(5, 2), **changed))


def test_several_processes_may_have_one_micro_batch_each():
    NoiseScale().attach(
        stub(
            nn.Linear(5, 2),
            processes=2,
            gradient_accumulation_steps=1,
            distributed_type="MULTI_GPU",
        )
    )


def test_a_window_of_one_update_is_refused():
    with pytest.raises(InvalidValue, match=r"window >= 2.*got 1"):
        NoiseScale(window=1)
