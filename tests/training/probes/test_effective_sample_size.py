from types import SimpleNamespace

import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.training.instruments import Instrumented, MicroBatch
from entrometer.training.probes import EffectiveSampleSize
from entrometer.training.probes.update_batch import token_weights

LOSSES = [
    {"loss_type": "dr_grpo"},
    {"loss_type": "dr_grpo", "epsilon": 0.1, "epsilon_high": 0.4},
    {"loss_type": "dr_grpo", "delta": 1.5},
    {"loss_type": "dr_grpo", "importance_sampling_level": "sequence"},
    {"loss_type": "grpo"},
    {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    {"loss_type": "dapo"},
    {"loss_type": "luspo"},
    {"loss_type": "cispo", "epsilon_high": 1.2},
]


def far_from_the_policy_that_sampled():
    """Responses of 1 to 5 tokens, with ratios on both sides of every clip."""
    generator = torch.Generator().manual_seed(0)
    S, noise, H = torch.randn(3, 6, 5, generator=generator)
    S = -S.abs()
    mask = (torch.arange(5) < torch.tensor([5, 4, 3, 2, 1, 5])[:, None]).long()
    advantage = torch.tensor([1.0, -1.0, 0.5, -0.5, 2.0, -2.0])[:, None]
    return MicroBatch(
        row=torch.arange(6),
        group=torch.arange(6) // 3,
        prompt_ids=torch.ones_like(mask),
        prompt_mask=torch.ones_like(mask),
        response_ids=torch.ones_like(mask),
        response_mask=mask,
        rewards=advantage,
        advantage=advantage,
        S=S,
        S_old=S - 0.5 * noise,
        H=H.abs(),
    )


def own_weights(trainer, micro):
    """Minus the gradient of the trainer's own loss in the table of log-probs."""
    S = micro.S.clone().requires_grad_()
    tables = (S, micro.H, None)
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: tables
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    inputs = {
        "prompt_ids": micro.prompt_ids,
        "prompt_mask": micro.prompt_mask,
        "completion_ids": micro.response_ids,
        "completion_mask": micro.response_mask,
        "advantages": micro.advantage.squeeze(1),
        "num_items_in_batch": micro.response_mask.sum(),
        "old_per_token_logps": micro.S_old,
    }
    loss = super(Instrumented, trainer)._compute_loss(trainer.model, inputs)
    (gradient,) = torch.autograd.grad(loss, S)
    return -gradient


@pytest.mark.parametrize("settings", LOSSES)
def test_weights_are_the_gradient_of_the_trainers_own_loss(make_trainer, settings):
    trainer = make_trainer(**settings)
    micro = far_from_the_policy_that_sampled()
    found, expected = token_weights(trainer, micro), own_weights(trainer, micro)
    counted = micro.response_mask.bool()
    assert (found[~counted] == 0).all()
    assert (found[counted] == 0).any() == (settings["loss_type"] != "cispo")
    torch.testing.assert_close(
        found / found.norm(), expected / expected.norm(), rtol=1e-5, atol=1e-8
    )


def test_on_the_policy_that_sampled_every_token_has_ratio_one(
    make_trainer, train, witness
):
    (log,) = train(make_trainer(witness, EffectiveSampleSize()))
    tokens = sum(int(m.response_mask.sum()) for m in witness.micros)
    A = torch.cat([m.advantage.expand_as(m.S) for m in witness.micros])
    mask = torch.cat([m.response_mask for m in witness.micros])
    w = (A * mask).double()
    assert log["effective_samples/ratios"] == pytest.approx(tokens, rel=1e-6)
    for name, x in (("tokens", w.abs()), ("responses", w.abs().sum(1))):
        expected = (x.sum() ** 2 / x.square().sum()).item()
        assert log[f"effective_samples/{name}"] == pytest.approx(expected, rel=1e-6)


def plain(**changed):
    return SimpleNamespace(
        **{
            "loss_type": "dr_grpo",
            "top_entropy_quantile": 1.0,
            "off_policy_mask_threshold": None,
            "use_vllm": False,
            "vllm_importance_sampling_correction": True,
        }
        | changed
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"loss_type": "vespo"},
        {"top_entropy_quantile": 0.2},
        {"off_policy_mask_threshold": 0.1},
        {"use_vllm": True},
    ],
)
def test_weights_that_are_not_known_are_refused(changed):
    EffectiveSampleSize().attach(plain())
    with pytest.raises(InvalidValue, match="leave it out"):
        EffectiveSampleSize().attach(plain(**changed))
