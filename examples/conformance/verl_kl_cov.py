"""verl's KL-Cov penalises other tokens if the batch is split.

    python examples/conformance/verl_kl_cov.py .verl

Two responses of two tokens. The token of the largest covariance is chosen in each
micro-batch, so halves penalise two tokens and the whole batch one.
"""

import sys
from pathlib import Path

import torch

from entrometer.conformance.adaptors import verl

sys.path.append(sys.argv[1])
verl.prepare(Path(sys.argv[1]))

from verl.trainer.ppo.core_algos import get_policy_loss_fn  # noqa: E402
from verl.workers.config import ActorConfig, PolicyLossConfig  # noqa: E402

config = ActorConfig(
    strategy="fsdp",
    rollout_n=1,
    ppo_micro_batch_size_per_gpu=1,
    policy_loss=PolicyLossConfig(loss_mode="kl_cov", kl_cov_ratio=0.25, ppo_kl_coef=1),
)
config.global_batch_info.update(dp_size=1, batch_num_tokens=4, global_batch_size=2)
S_old = torch.tensor([[-0.1, -2.0], [-0.2, -3.0]])
A = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])


def alpha(micro_batch: int) -> list[float]:
    """Return the token weights of a batch in micro-batches of this many responses."""
    S = (S_old - 0.05).requires_grad_()
    total = torch.zeros(())
    for rows in torch.arange(2).split(micro_batch):
        total = (
            total
            + get_policy_loss_fn("kl_cov")(
                old_log_prob=S_old[rows],
                log_prob=S[rows],
                advantages=A[rows],
                response_mask=torch.ones(len(rows), 2),
                loss_agg_mode="token-mean",
                config=config,
            )[0]
        )
    (gradient,) = torch.autograd.grad(total, S)
    return [round(-x, 4) for x in gradient.flatten().tolist()]


print(f"whole {alpha(2)}, in halves {alpha(1)}")
