r"""Exact entropies, reward and their derivatives, by summing over every response.

Nothing here uses per-token entropies, importance weights or forward-mode
differentiation, and nothing is imported from the rooms that it judges: the entropy is
$-\sum_t \pi(t)\ln\pi(t)$ over whole responses, a derivative is reverse mode through
that sum.
"""

# Axes: P prompts, M sequences of a prompt, L length limit.

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.oracles.policy import EnumerablePolicy

Objective = Callable[[dict[str, Tensor]], Tensor]
"""A scalar function of the parameters, summed over every response."""


def sequence_logprobs(
    policy: EnumerablePolicy, params: dict[str, Tensor]
) -> Float[Tensor, "P M"]:
    r"""$\ln\pi(t|p)$ of every response to every prompt."""
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
    r"""$\mathrm E[T]$ in tokens."""
    T_M = policy.lengths().double()
    return lambda params: (sequence_logprobs(policy, params).exp() @ T_M).mean()


def entropy_per_sequence(policy: EnumerablePolicy) -> Objective:
    r"""$\mathcal H = -\mathrm E_p\sum_t \pi(t|p)\ln\pi(t|p)$ in nats a response."""

    def objective(params: dict[str, Tensor]) -> Tensor:
        log_p = sequence_logprobs(policy, params)
        return -(log_p.exp() * log_p).sum(dim=1).mean()

    return objective


def entropy_per_token(policy: EnumerablePolicy) -> Objective:
    r"""$h = \mathcal H / \mathrm E[T]$ in nats a token."""
    entropy, length = entropy_per_sequence(policy), mean_length(policy)
    return lambda params: entropy(params) / length(params)


def expected_reward(
    policy: EnumerablePolicy, rewards: Float[Tensor, "P M"]
) -> Objective:
    r"""$J = \mathrm E_p\sum_t \pi(t|p)\,r(p, t)$."""
    return lambda params: (
        (sequence_logprobs(policy, params).exp() * rewards).sum(dim=1).mean()
    )


def random_rewards(policy: EnumerablePolicy, seed: int) -> Float[Tensor, "P M"]:
    """A fixed 0/1 reward of every response to every prompt."""
    generator = torch.Generator().manual_seed(seed)
    shape = (policy.prompts, policy.sequences().shape[0])
    return torch.randint(0, 2, shape, generator=generator).double()


def gradient(objective: Objective, params: dict[str, Tensor]) -> dict[str, Tensor]:
    """Exact gradient, by reverse mode."""
    leaves = {name: p.detach().requires_grad_() for name, p in params.items()}
    grads = torch.autograd.grad(objective(leaves), list(leaves.values()))
    return dict(zip(leaves, grads, strict=True))


def first_derivative(
    objective: Objective, params: dict[str, Tensor], direction: dict[str, Tensor]
) -> float:
    r"""Exact $\nabla f\cdot v$."""
    grad = gradient(objective, params)
    return float(sum((grad[name] * direction[name]).sum() for name in grad))


def second_derivative(
    objective: Objective, params: dict[str, Tensor], direction: dict[str, Tensor]
) -> float:
    r"""Exact $v^\top\nabla^2 f\,v$, by reverse mode over reverse mode."""
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
    r"""$\theta + \eta v$."""
    return {name: p + eta * direction[name] for name, p in params.items()}
