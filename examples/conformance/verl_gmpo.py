"""The gradient of verl's GMPO grows with the number of micro-batches.

    pip install --no-deps --target .verl ...   # as CONTRIBUTING.md has it
    python examples/conformance/verl_gmpo.py .verl

Two responses of one token each, on policy. verl tells a loss the totals of the batch,
so that micro-batches add up; GMPO takes the mean of its own micro-batch.
"""

import sys
from pathlib import Path

import torch

from entrometer.conformance.adaptors import verl

sys.path.append(sys.argv[1])
verl.prepare(Path(sys.argv[1]))

from verl.trainer.ppo.core_algos import get_policy_loss_fn  # noqa: E402
from verl.workers.config import ActorConfig  # noqa: E402

config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
config.global_batch_info.update(dp_size=1, batch_num_tokens=2, global_batch_size=2)
A = torch.tensor([[1.0], [-1.0]])


def alpha(loss: str, micro_batch: int) -> list[float]:
    """Return the token weights of a batch in micro-batches of this many responses."""
    S = torch.tensor([[-0.5], [-0.7]], requires_grad=True)
    total = torch.zeros(())
    for rows in torch.arange(2).split(micro_batch):
        total = (
            total
            + get_policy_loss_fn(loss)(
                old_log_prob=S.detach()[rows],
                log_prob=S[rows],
                advantages=A[rows],
                response_mask=torch.ones(len(rows), 1),
                loss_agg_mode="seq-mean-token-mean",
                config=config,
            )[0]
        )
    (gradient,) = torch.autograd.grad(total, S)
    return [round(-x, 4) for x in gradient.flatten().tolist()]


for loss in ("vanilla", "geo_mean"):
    print(f"{loss}: whole {alpha(loss, 2)}, in halves {alpha(loss, 1)}")
