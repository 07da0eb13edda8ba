"""(c) The update vector against the step that torch.optim.AdamW takes."""

import copy

import torch
from torch import Tensor

from benchmarks.enumerated import Enumerated, random_direction
from benchmarks.harness import Check
from entrometer import calculus


def adamw(steps: int = 10, max_norm: float = 0.5) -> list[Check]:
    """(c) Update vector against the step that torch.optim.AdamW takes."""
    checks = []
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        against, parts = _adamw_errors(dtype, steps, max_norm)
        name = str(dtype).removeprefix("torch.")
        checks.append(Check(f"c.adamw.{name}.relative_error", against, at_most=limit))
        if dtype is torch.float64:
            checks.append(Check("c.adamw.parts.relative_error", parts, at_most=1e-12))
    return checks


def _adamw_errors(
    dtype: torch.dtype, steps: int, max_norm: float
) -> tuple[float, float]:
    world = Enumerated.random(0)
    theta = {n: p.to(dtype).requires_grad_() for n, p in world.theta.items()}
    decayed = {n: 0.1 if p.ndim > 1 else 0.0 for n, p in theta.items()}
    groups = [
        {"params": [theta[n] for n in theta if decayed[n]], "weight_decay": 0.1},
        {"params": [theta[n] for n in theta if not decayed[n]], "weight_decay": 0.0},
    ]
    hyper = calculus.AdamWHyperparameters((0.9, 0.99), 1e-8, decayed)
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.99), eps=1e-8)
    state = calculus.AdamWState.fresh(theta)
    worst_step = worst_parts = 0.0
    for step in range(steps):
        halves = [_noise(theta, 2 * step + half) for half in range(2)]
        gradient = calculus.add(*halves)
        update, state = calculus.adamw_update(
            theta, gradient, state, hyper, max_norm=max_norm
        )
        real = _unit_step(theta, optimizer, gradient, max_norm)
        worst_step = max(worst_step, _relative(update.direction, real))
        total = calculus.add(update.history, update.decay)
        for half in halves:
            total = calculus.add(total, update.part(half))
        worst_parts = max(worst_parts, _relative(total, update.direction))
        _give(theta, gradient, max_norm)
        optimizer.step()
    return worst_step, worst_parts


def _unit_step(
    theta: dict[str, Tensor],
    optimizer: torch.optim.AdamW,
    gradient: calculus.Vector,
    max_norm: float,
) -> dict[str, Tensor]:
    # The update at unit learning rate does not depend on the learning rate; a real step
    # of rate 1 from a copy of the same state shows it without the cancellation of
    # (theta' - theta)/lr at a small one.
    twin, twin_optimizer = copy.deepcopy((theta, optimizer))
    for group in twin_optimizer.param_groups:
        group["lr"] = 1.0
    _give(twin, gradient, max_norm)
    twin_optimizer.step()
    return {n: (twin[n] - theta[n]).detach() for n in theta}


def _give(theta: dict[str, Tensor], gradient: calculus.Vector, limit: float) -> None:
    for name, p in theta.items():
        p.grad = gradient[name].clone()
    torch.nn.utils.clip_grad_norm_(theta.values(), limit)


def _noise(theta: calculus.Vector, seed: int) -> dict[str, Tensor]:
    return calculus.scale(random_direction(theta, seed), 2.0)


def _relative(got: calculus.Vector, expected: calculus.Vector) -> float:
    difference = calculus.add(got, expected, scale=-1.0)
    return calculus.norm(difference).item() / calculus.norm(expected).item()
