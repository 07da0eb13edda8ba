"""Losses of verl by its own code: run by itself, with verl at the end of the path.

    python verl_losses.py WHERE_VERL_IS CASES ANSWERS

Nothing of this package is imported here, and nothing of verl elsewhere.
"""

import sys
from ast import literal_eval
from contextlib import suppress
from types import ModuleType

import torch

# verl names a class of ray in annotations; no loss has to do with it.
sys.modules["ray"] = ModuleType("ray")
sys.modules["ray"].ObjectRef = object
sys.path.append(sys.argv[1])

from verl.trainer.config import AlgoConfig  # noqa: E402
from verl.trainer.ppo.core_algos import (  # noqa: E402
    agg_loss,
    compute_grpo_outcome_advantage,
    get_policy_loss_fn,
)
from verl.workers.config import ActorConfig, PolicyLossConfig  # noqa: E402


def configs(line):
    """A config line as verl's own classes, which know the names of their settings."""
    actor, loss, algorithm = {}, {}, {}
    for pair in line.split():
        key, _, value = pair.partition("=")
        # A name stays a name.
        with suppress(ValueError, SyntaxError):
            value = literal_eval(value)
        room, _, name = key.rpartition(".")
        {
            "actor_rollout_ref.actor": actor,
            "actor_rollout_ref.actor.policy_loss": loss,
            "algorithm": algorithm,
        }[room][name] = value
    fixed = {"strategy": "fsdp", "rollout_n": 4, "ppo_micro_batch_size_per_gpu": 1}
    return (
        ActorConfig(**fixed, **actor, policy_loss=PolicyLossConfig(**loss)),
        AlgoConfig(**algorithm),
    )


def alphas(case):
    """Its alpha and gamma, and the advantages that it would make of the rewards."""
    actor, algorithm = configs(case["line"])
    S = case["S"].clone().requires_grad_()
    H = case["H"].clone().requires_grad_()
    mask = case["mask"].double()
    mean = {"loss_agg_mode": actor.loss_agg_mode}
    loss, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
        old_log_prob=case["S_old"],
        log_prob=S,
        advantages=case["A"],
        response_mask=mask,
        config=actor,
        **mean,
    )
    # As verl's `ppo_loss` goes on.
    scale = actor.loss_scale_factor
    loss = loss - actor.entropy_coeff * agg_loss(
        H, mask, loss_scale_factor=scale, **mean
    )
    dS, dH = torch.autograd.grad(loss, (S, H))
    rewards = torch.zeros_like(mask)
    rewards[:, 0] = case["A"][:, 0]
    A, _ = compute_grpo_outcome_advantage(
        rewards,
        torch.ones_like(mask),
        case["group"].numpy(),
        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
    )
    return {"alpha": -dS, "gamma": -dH, "A": A}


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases = torch.load(sys.argv[2], weights_only=True)
    answers = []
    for case in cases:
        torch.manual_seed(0)
        answers.append(alphas(case))
    torch.save(answers, sys.argv[3])
