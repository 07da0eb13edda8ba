"""SkyRL divides advantages by the batch before it computes their covariance.

    pip install --no-deps --target .frameworks/skyrl skyrl==0.3.0
    python examples/conformance/skyrl_cov.py .frameworks/skyrl

The losses are sums, so the divisor is in the advantages. KL-Cov's penalty is not
divided, so it outweighs the surrogate by the number of tokens. Clip-Cov compares the
covariance of the divided advantages with the bounds of the paper, which no token
reaches.
"""

import sys
from pathlib import Path

import torch

from entrometer.conformance.adaptors import skyrl

sys.path.append(sys.argv[1])
skyrl.prepare(Path(sys.argv[1]))

from skyrl.backends.skyrl_train.utils import ppo_utils  # noqa: E402
from skyrl.train.config.config import AlgorithmConfig  # noqa: E402


def alpha(loss: str, tokens: int, *, divide: bool) -> torch.Tensor:
    """Return the token weights times the divisor, which should then not matter.

    Half of the tokens are certain tokens of good responses, half are unlikely tokens of
    bad ones: A is 2 and -2, S is -0.1 and -4, so each covariance is 3.9.
    """
    config = AlgorithmConfig(policy_loss_type=loss)
    config.kl_cov.kl_cov_frac = config.clip_cov.clip_ratio = 1.0
    good = torch.arange(tokens).reshape(2, -1) < tokens // 2
    A, mask = torch.where(good, 2.0, -2.0), torch.ones(good.shape)
    S_old = torch.where(good, -0.1, -4.0)
    S = (S_old + 0.05).requires_grad_()
    divided = ppo_utils.apply_loss_reduction_to_advantages_minibatch(
        A, mask, "token_mean", 2, tokens
    )
    total, _ = ppo_utils.PolicyLossRegistry.get(loss)(
        S, S_old, divided if divide else A, config=config, loss_mask=mask
    )
    (gradient,) = torch.autograd.grad(total, S)
    return -gradient * (tokens if divide else 1)


for loss in ("regular", "kl_cov", "clip_cov"):
    for tokens, divide in ((4, True), (400, True), (400, False)):
        good, bad = alpha(loss, tokens, divide=divide)[:, 0].tolist()
        how = "" if divide else " without the divisor"
        print(f"{loss}, {tokens} tokens{how}: A > 0 {good:+.2f}, A < 0 {bad:+.2f}")
