"""NeMo-RL's penalty to a reference model has a second gradient.

    python examples/conformance/nemo_rl_kl.py FOLDER   # of NeMo-RL's source

One token with A = 0. The estimator k3 = exp(-d) - 1 + d, d = S - S_ref, is multiplied
by exp(S - sg(S)), whose value is 1. Its gradient is then that of k3 plus k3 itself,
so α is -βd, which is the gradient of k2, and not k3's -β(1 - exp(-d)).
"""

import sys
from pathlib import Path

import torch

from entrometer.conformance.adaptors import nemo_rl

sys.path.append(sys.argv[1])
nemo_rl.prepare(Path(sys.argv[1]))

from nemo_rl.algorithms.loss.loss_functions import (  # noqa: E402
    ClippedPGLossConfig,
    ClippedPGLossFn,
)

BETA = 0.04
loss = ClippedPGLossFn(ClippedPGLossConfig(reference_policy_kl_penalty=BETA))
zero = torch.zeros(1, 1)
for d in (-1.0, 0.5, 1.0):
    S = torch.full((1, 1), -1.0, requires_grad=True)
    table = torch.cat([zero, S.detach()], dim=1)
    data = {
        "token_mask": torch.ones(1, 2),
        "sample_mask": torch.ones(1),
        "advantages": torch.zeros(1, 2),
        "prev_logprobs": table,
        "generation_logprobs": table,
        "reference_policy_logprobs": table - d,
    }
    one = torch.ones(())
    total, _ = loss(S, data, global_valid_seqs=one, global_valid_toks=one)
    (gradient,) = torch.autograd.grad(total, S)
    k3 = BETA * (1.0 - torch.tensor(-d).exp())
    print(f"d = {d:+}: α = {-gradient.item():+.4f}, of k3 alone {-k3.item():+.4f}")
