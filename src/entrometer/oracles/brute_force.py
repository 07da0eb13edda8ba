"""Kernel and token influence the slow way: one reverse pass for every single token."""

# Axes: N responses, L length limit, E all parameters in one row.

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.oracles.policy import EnumerablePolicy
from entrometer.oracles.truths import Objective, gradient, sequence_logprobs


def score_jacobian(
    policy: EnumerablePolicy, params: dict[str, Tensor]
) -> Float[Tensor, "N E"]:
    r"""Rows $\nabla S(t)$ for every response to every prompt, prompts outermost."""
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    scores = sequence_logprobs(policy, leaves).flatten()
    return torch.stack([_row(score, leaves) for score in scores])


def dense_kernel(
    policy: EnumerablePolicy,
    params: dict[str, Tensor],
    preconditioner: dict[str, Tensor],
) -> Float[Tensor, "N N"]:
    r"""$K = J_S P J_S^\top$ over every response to every prompt."""
    J = score_jacobian(policy, params)
    P = torch.cat([preconditioner[name].flatten() for name in params])
    return J * P @ J.T


def token_influence(
    policy: EnumerablePolicy,
    params: dict[str, Tensor],
    objective: Objective,
    *,
    prompt: Int[Tensor, " N"],
    tokens: Int[Tensor, "N L"],
    mask: Bool[Tensor, "N L"],
    alpha: Float[Tensor, "N L"],
    gamma: Float[Tensor, "N L"],
    preconditioner: dict[str, Tensor],
    kappa: float,
) -> Float[Tensor, "N L"]:
    r"""Effect of each token's own part of the update on an exact objective $f$.

    $I(i,k) = \nabla f\cdot v_{ik}$ with
    $v_{ik} = \kappa P(\alpha_{ik}\nabla S_{ik} + \gamma_{ik}\nabla H_{ik})$ written out
    for every token in turn; zero where the mask is off.
    """
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    log_p = torch.log_softmax(policy.logits(leaves, prompt, tokens), dim=-1)
    S = torch.gather(log_p, 2, tokens.unsqueeze(2)).squeeze(2)
    H = -(log_p.exp() * log_p).sum(dim=2)
    slope = gradient(objective, params)
    grad_f = torch.cat([slope[name].flatten() for name in params])
    P = torch.cat([preconditioner[name].flatten() for name in params])
    influence = torch.zeros_like(alpha)
    for i, k in mask.nonzero().tolist():
        g_ik = alpha[i, k] * _row(S[i, k], leaves) + gamma[i, k] * _row(H[i, k], leaves)
        influence[i, k] = grad_f @ (kappa * P * g_ik)
    return influence


def _row(value: Tensor, leaves: dict[str, Tensor]) -> Tensor:
    grads = torch.autograd.grad(
        value,
        list(leaves.values()),
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return torch.cat([g.flatten() for g in grads])
