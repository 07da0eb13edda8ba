"""The kernel by `torch.func`: vmap over the gradient of one sequence."""

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from benchmarks.kernel.padded import labelled
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


def gram(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    model = policy.model
    params = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}

    def score(theta: dict[str, Tensor], ids_T: Tensor, labels_T: Tensor) -> Tensor:
        out = functional_call(
            model, theta, kwargs={"input_ids": ids_T[None], "use_cache": False}
        )
        return -cross_entropy(
            out.logits[0, :-1], labels_T[1:], ignore_index=-100, reduction="sum"
        )

    rows_of = vmap(grad(score), in_dims=(None, 0, 0))
    N, d = rollouts.count, sum(p.numel() for p in params.values())
    rows_ND = torch.empty(N, d)
    for rows, ids_BT, labels_BT in labelled(rollouts):
        found = rows_of(params, ids_BT, labels_BT)
        rows_ND[rows] = torch.cat([g.flatten(1) for g in found.values()], dim=1)
    return (rows_ND @ rows_ND.T).numpy()
