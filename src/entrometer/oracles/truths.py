r"""Exact entropies, reward, kernel and token influence, by brute force.

Nothing here uses per-token entropies, importance weights or forward-mode
differentiation, and nothing is imported from the packages that it checks: the entropy
is $-\sum_t \pi(t)\ln\pi(t)$ over whole responses, a derivative is reverse mode through
that sum, and kernel and influence take one reverse pass for every single token.
"""

# Axes: P prompts, M sequences of a prompt, L length limit, N responses, E elements of
# all parameters.

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.oracles.policy import EnumerablePolicy

Objective = Callable[[dict[str, Tensor]], Tensor]
"""A scalar function of the parameters, summed over every response."""


def sequence_logprobs(
    policy: EnumerablePolicy, params: dict[str, Tensor]
) -> Float[Tensor, "P M"]:
    r"""Return $\ln\pi(t|p)$ of every response to every prompt."""
    sequences_ML = policy.sequences()
    M = sequences_ML.shape[0]
    prompt = torch.arange(policy.prompts).repeat_interleave(M)
    tokens = sequences_ML.repeat(policy.prompts, 1)
    log_p = torch.log_softmax(policy.logits(params, prompt, tokens), dim=-1)
    taken = torch.gather(log_p, 2, tokens.unsqueeze(2)).squeeze(2)
    counted = torch.arange(policy.length) < policy.lengths().unsqueeze(1)
    zero = torch.zeros((), dtype=taken.dtype)
    taken = torch.where(counted.repeat(policy.prompts, 1), taken, zero)
    return taken.sum(dim=1).reshape(policy.prompts, M)


def mean_length(policy: EnumerablePolicy) -> Objective:
    r"""Return the function $\theta\mapsto\mathrm E[T]$, the mean length in tokens."""
    T_M = policy.lengths().double()
    return lambda params: (sequence_logprobs(policy, params).exp() @ T_M).mean()


def entropy_per_sequence(policy: EnumerablePolicy) -> Objective:
    r"""Return the function $\theta\mapsto -\mathrm E_p\sum_t \pi(t|p)\ln\pi(t|p)$."""

    def objective(params: dict[str, Tensor]) -> Tensor:
        log_p = sequence_logprobs(policy, params)
        return -(log_p.exp() * log_p).sum(dim=1).mean()

    return objective


def entropy_per_token(policy: EnumerablePolicy) -> Objective:
    r"""Return the function $\theta\mapsto\mathcal H/\mathrm E[T]$, nats per token."""
    entropy, length = entropy_per_sequence(policy), mean_length(policy)
    return lambda params: entropy(params) / length(params)


def expected_reward(
    policy: EnumerablePolicy, rewards: Float[Tensor, "P M"]
) -> Objective:
    r"""Return the function $\theta\mapsto J = \mathrm E_p\sum_t \pi(t|p)\,r(p, t)$."""
    return lambda params: (
        (sequence_logprobs(policy, params).exp() * rewards).sum(dim=1).mean()
    )


def random_rewards(policy: EnumerablePolicy, seed: int) -> Float[Tensor, "P M"]:
    """Return a random but fixed 0/1 reward of every response to every prompt."""
    generator = torch.Generator().manual_seed(seed)
    shape = (policy.prompts, policy.sequences().shape[0])
    return torch.randint(0, 2, shape, generator=generator).double()


def gradient(objective: Objective, params: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the exact gradient of an objective, by reverse mode."""
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    grads = torch.autograd.grad(objective(leaves), list(leaves.values()))
    return dict(zip(leaves, grads, strict=True))


def first_derivative(
    objective: Objective, params: dict[str, Tensor], direction: dict[str, Tensor]
) -> float:
    r"""Return the exact $\nabla f\cdot v$."""
    grad = gradient(objective, params)
    return float(sum((grad[name] * direction[name]).sum() for name in grad))


def second_derivative(
    objective: Objective, params: dict[str, Tensor], direction: dict[str, Tensor]
) -> float:
    r"""Return the exact $v^\top\nabla^2 f\,v$, by reverse mode over reverse mode."""
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    grads = torch.autograd.grad(
        objective(leaves), list(leaves.values()), create_graph=True
    )
    slope = sum(
        ((g * direction[name]).sum() for name, g in zip(leaves, grads, strict=True)),
        start=torch.zeros((), dtype=torch.float64),
    )
    curvature = torch.autograd.grad(slope, list(leaves.values()))
    return float(
        sum(
            (c * direction[name]).sum()
            for name, c in zip(leaves, curvature, strict=True)
        )
    )


def moved(
    params: dict[str, Tensor], direction: dict[str, Tensor], eta: float
) -> dict[str, Tensor]:
    r"""Return $\theta + \eta v$."""
    return {name: p + eta * direction[name] for name, p in params.items()}


def score_jacobian(
    policy: EnumerablePolicy, params: dict[str, Tensor]
) -> Float[Tensor, "N E"]:
    r"""Return rows $\nabla S(t)$ of every response, prompts outermost."""
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    scores = sequence_logprobs(policy, leaves).flatten()
    return torch.stack([_row(score, leaves) for score in scores])


def dense_kernel(
    policy: EnumerablePolicy,
    params: dict[str, Tensor],
    preconditioner: dict[str, Tensor],
) -> Float[Tensor, "N N"]:
    r"""Return $K = J_S P J_S^\top$ over every response to every prompt."""
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
    r"""Return the effect of each token's part of the update on an exact objective $f$.

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
