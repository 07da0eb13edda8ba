"""(d) The influence of each token against brute force, and its sum."""

import numpy as np
import torch
from torch import Tensor

from benchmarks.enumerated import Enumerated, random_direction, sampled, taken
from benchmarks.harness import Check, worst
from entrometer import calculus, oracles
from entrometer.estimators import (
    GradientWeights,
    Tables,
    Tangents,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
    influence_parts,
    linear_statistics,
    linear_term,
    reward_change,
    reward_gradient_weights,
    reward_slope_statistics,
)
from entrometer.tokens import dr_grpo_loss, leave_one_out_advantages, loss_coefficients


def influence(worlds: int = 3, prompts: int = 4, group: int = 3) -> list[Check]:
    """(d) Influence of each token against brute force, and its sum."""
    errors: dict[str, list[float]] = {"entropy": [], "reward": []}
    sums: dict[str, list[float]] = {"entropy": [], "reward": []}
    for seed in range(worlds):
        world = Enumerated.random(seed)
        rng = np.random.default_rng(seed)
        rewards = oracles.random_rewards(world.policy, seed)
        r = rewards.flatten().numpy()
        rows = torch.as_tensor(world.draw(rng, prompts * group))
        # The advantages only have to be some numbers: groups need not share a prompt.
        scores = torch.as_tensor(rng.random((prompts, group)))
        A = leave_one_out_advantages(scores).flatten()
        update, alpha, gamma = _update(world, rows, A)
        exact = {
            "entropy": oracles.entropy_per_token(world.policy),
            "reward": oracles.expected_reward(world.policy, rewards),
        }
        batch = world.draw(rng, 48)
        for name, f in exact.items():
            gradient = _whole_gradient(world, name, r)
            mine = _influence(world, rows, alpha, gamma, update.adjoint(gradient))
            truth = oracles.token_influence(
                world.policy,
                world.theta,
                f,
                prompt=world.prompt[rows],
                tokens=world.tokens[rows],
                mask=world.mask[rows],
                alpha=alpha,
                gamma=gamma,
                preconditioner=dict(update.preconditioner),
                kappa=update.kappa,
            )[world.mask[rows]].numpy()
            errors[name].append(float(np.abs(mine - truth).max() / np.abs(truth).max()))
            u = update.adjoint(_batch_gradient(world, name, r, batch))
            total = _influence(world, rows, alpha, gamma, u).sum()
            linear = _linear(world, name, r, batch, update.direction)
            for other in (update.history, update.decay):
                linear -= _linear(world, name, r, batch, other)
            sums[name].append(abs(total - linear) / abs(linear))
    return [
        *(
            Check(f"d.{n}.token_error", worst(e), at_most=1e-9)
            for n, e in errors.items()
        ),
        *(Check(f"d.{n}.sum_error", worst(e), at_most=1e-10) for n, e in sums.items()),
    ]


def _update(
    world: Enumerated, rows: Tensor, advantages: Tensor
) -> tuple[calculus.Update, Tensor, Tensor]:
    """A real AdamW update by a Dr-GRPO loss with an entropy bonus, ratios not 1."""
    mask = world.mask[rows]
    S, H = (x[rows] for x in world.padded(world.theta))
    old = S + 0.1 * torch.randn(S.shape, generator=torch.Generator().manual_seed(0)).to(
        S
    )

    def loss(S: Tensor, H: Tensor) -> Tensor:
        bonus = 0.05 * (H * mask).mean()
        return dr_grpo_loss(S, old, advantages, mask, length_limit=S.shape[1]) - bonus

    alpha, gamma = loss_coefficients(loss, S, H)

    def tables(theta: calculus.Vector) -> tuple[Tensor, Tensor]:
        S, H = world.padded(theta)
        return S[rows], H[rows]

    gradient = calculus.vjp(tables, world.theta, (-alpha, -gamma)).gradient
    past = random_direction(world.theta, 7)
    state = calculus.AdamWState(
        step=3,
        first_moment=calculus.scale(past, 0.1),
        second_moment={n: x**2 + 1e-4 for n, x in past.items()},
    )
    hyper = calculus.AdamWHyperparameters(
        (0.9, 0.999), 1e-8, {n: 0.01 if p.ndim > 1 else 0.0 for n, p in past.items()}
    )
    update, _ = calculus.adamw_update(
        world.theta, gradient, state, hyper, max_norm=0.05
    )
    return update, alpha, gamma


def _whole_gradient(world: Enumerated, name: str, r: np.ndarray) -> dict[str, Tensor]:
    """Gradient of h or J over the whole distribution, by token weights."""
    p = world.responses.spread(world.probability)
    if name == "reward":
        # The exact score has mean zero: no baseline is needed.
        a = world.responses.spread(r)
        return _pull_back(world, GradientWeights(S=p * a, H=np.zeros_like(p)))
    whole = world.expectation(entropy_statistics(world.responses, world.here.H))
    weights = entropy_gradient_weights(
        world.responses, world.here, whole, weighting=Weighting.PER_DECISION
    )
    return _pull_back(world, GradientWeights(S=p * weights.S, H=p * weights.H))


def _batch_gradient(
    world: Enumerated, name: str, r: np.ndarray, batch: np.ndarray
) -> dict[str, Tensor]:
    """Gradient of h or J on a drawn batch, by token weights."""
    responses, index = world.layout(batch)
    here = Tables(*taken(world.here, index))
    if name == "reward":
        still = Tangents(np.zeros_like(here.S), np.zeros_like(here.H))
        whole = reward_slope_statistics(responses, r[batch], still)
        weights = reward_gradient_weights(responses, r[batch], whole, baseline="batch")
    else:
        whole = entropy_statistics(responses, here.H)
        weights = entropy_gradient_weights(
            responses, here, whole, weighting=Weighting.PER_DECISION
        )
    summed = [np.bincount(index, x, minlength=world.responses.tokens) for x in weights]
    return _pull_back(world, GradientWeights(*summed))


def _pull_back(world: Enumerated, weights: GradientWeights) -> dict[str, Tensor]:
    padded = [torch.zeros(world.mask.shape, dtype=torch.float64) for _ in weights]
    for table, column in zip(padded, weights, strict=True):
        table[world.mask] = torch.as_tensor(column)
    return calculus.vjp(world.padded, world.theta, padded).gradient


def _influence(
    world: Enumerated,
    rows: Tensor,
    alpha: Tensor,
    gamma: Tensor,
    u: dict[str, Tensor],
) -> np.ndarray:
    mask = world.mask[rows]
    dS, dH = (x[rows][mask] for x in calculus.jvp(world.padded, world.theta, u).first)
    return influence_parts(
        alpha[mask].numpy(),
        gamma[mask].numpy(),
        dS[:, None].numpy(),
        dH[:, None].numpy(),
    )[:, 0]


def _linear(
    world: Enumerated,
    name: str,
    r: np.ndarray,
    batch: np.ndarray,
    direction: calculus.Vector,
) -> float:
    """Slope of h or J along a direction on a drawn batch."""
    along = Enumerated(world.policy, world.theta, direction)
    if name == "reward":
        stats = reward_slope_statistics(along.responses, r, along.tangents)
        return reward_change(sampled(stats, batch), baseline="batch").value
    stats = linear_statistics(
        along.responses, along.here, along.tangents, weighting=Weighting.PER_DECISION
    )
    return linear_term(sampled(stats, batch)).value
