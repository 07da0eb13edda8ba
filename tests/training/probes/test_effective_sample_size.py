import pytest
import torch

from entrometer.training.instruments import Observed
from entrometer.training.probes import EffectiveSampleSize

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
    {"loss_type": "vespo"},
    {"loss_type": "dapo", "top_entropy_quantile": 0.4},
]


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
    loss = super(Observed, trainer)._compute_loss(trainer.model, inputs)
    (gradient,) = torch.autograd.grad(loss, S)
    return -gradient


@pytest.mark.parametrize("settings", LOSSES)
def test_weights_are_the_gradient_of_the_trainers_own_loss(
    make_trainer, train, witness, settings
):
    """The second pass over a window has ratios away from 1, on both sides of clips."""
    again = {"num_iterations": 2, "max_steps": 2, "learning_rate": 0.05}
    trainer = make_trainer(witness, **again, **settings)
    train(trainer)
    for micro in witness.micros[4:]:
        expected, counted = own_weights(trainer, micro), micro.response_mask.bool()
        assert (micro.alpha[~counted] == 0).all()
        # All rewards of a group may be equal, which leaves nothing.
        if expected.norm() == 0:
            assert micro.alpha.norm() == 0
            continue
        found = micro.alpha / micro.alpha.norm()
        torch.testing.assert_close(
            found, expected / expected.norm(), rtol=1e-4, atol=1e-6
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
