r"""Effect of a correction on the exact entropy of a policy that can be enumerated.

Both sides go over every response with the engine's probability. One is the package's:
token weights of the loss, times derivatives along the preconditioned gradient. The
other writes the loss out in torch, and takes the derivative of the exact entropy along
the difference of the two updates.
"""

# Axes: N all responses to all prompts, L length limit.

from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.enumerated import Enumerated, random_direction
from entrometer import oracles
from entrometer.calculus import jvp
from entrometer.interventions import TokenTables, intervention
from entrometer.tokens import token_logprobs

CORRECTIONS = (
    "tis:cap=inf",
    "tis:cap=1.1",
    "icepop:least=0.9,most=1.2",
    "mis:most=inf",
    "mis:most=1.1",
    "dppo-engine:low=0.02,high=0.02",
)
LIMIT = 8  #: Length limit that the loss divides by.


def error(text: str, seed: int) -> float:
    """Return the difference of both sides over the sum of the tokens' effects."""
    world = Enumerated.random(seed)
    noise = random_direction(world.theta, seed + 100)
    # Engine and trainer are apart by tenths of a nat.
    engine = oracles.moved(world.theta, noise, 0.5)
    S, H = world.padded(world.theta)
    S_engine, _ = world.padded(engine)
    q = oracles.sequence_logprobs(world.policy, engine).exp().flatten()
    rewards = oracles.random_rewards(world.policy, seed).flatten()
    mean = (q * rewards).reshape(world.policy.prompts, -1).sum(1)
    A = rewards - mean.repeat_interleave(q.numel() // world.policy.prompts)
    N = q.numel()
    tables = TokenTables(
        S=S,
        H=H,
        S_old=S,
        # A mean over N rows is then the expectation over the engine's responses.
        A=(N * q / world.policy.prompts * A)[:, None].expand_as(S).clone(),
        mask=world.mask,
        group=world.prompt,
        length_limit=LIMIT,
        S_engine=S_engine,
    )
    P = {n: torch.rand(x.shape, dtype=x.dtype) + 0.5 for n, x in world.theta.items()}
    objective = oracles.entropy_per_token(world.policy)
    slope = oracles.gradient(objective, world.theta)
    along = {n: P[n] * g for n, g in slope.items()}
    dS, _ = jvp(world.padded, world.theta, along).first
    plain, other = (
        intervention(t).coefficients(tables).alpha for t in ("dr-grpo", text)
    )
    by_token = ((other - plain) * dS).where(world.mask, 0.0)

    difference = oracles.gradient(
        lambda theta: (
            _loss(world, theta, tables, "dr-grpo") - _loss(world, theta, tables, text)
        ),
        world.theta,
    )
    step = {n: P[n] * g for n, g in difference.items()}
    exact = oracles.first_derivative(objective, world.theta, step)
    scale = float(by_token.abs().sum())
    assert scale > 0, f"{text} corrects nothing"
    return abs(float(by_token.sum()) - exact) / scale


def _loss(
    world: Enumerated, theta: dict[str, Tensor], tables: TokenTables, text: str
) -> Tensor:
    """Return the loss written out: every token's weight times its advantage and S."""
    z = world.policy.logits(theta, world.prompt, world.tokens)
    S = token_logprobs(z, world.tokens)
    weight = _weight(text, replace(tables, S=tables.S.detach())).where(world.mask, 0.0)
    return -(weight * tables.A * S).sum() / (len(S) * LIMIT)


def _weight(text: str, tables: TokenTables) -> Tensor:
    name, _, rest = text.partition(":")
    settings = {k: float(v) for k, v in (p.split("=") for p in rest.split(",") if p)}
    assert tables.S_engine is not None
    log_m = (tables.S - tables.S_engine).where(tables.mask, 0.0)
    m, one = log_m.exp(), torch.ones_like(log_m)
    if name == "tis":
        return torch.where(m < settings["cap"], m, settings["cap"])
    if name == "icepop":
        inside = (settings["least"] <= m) & (m <= settings["most"])
        return m * inside
    if name == "mis":
        M = log_m.sum(1, keepdim=True).exp()
        return M * (settings["most"] >= M) * one
    if name == "dppo-engine":
        moved = tables.S.exp() - tables.S_engine.exp()
        far = torch.where(
            tables.A > 0, moved > settings["high"], -moved > settings["low"]
        )
        return m * ~far
    return one
