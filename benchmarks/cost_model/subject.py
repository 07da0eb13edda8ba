"""Policies, and the passes over them: those the model is fitted on, and others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.cost_model.flops import Architecture, Lengths, Work
from benchmarks.cost_model.flops import passes as costs
from benchmarks.cost_model.flops.lengths import pairs
from benchmarks.cost_model.flops.sampling import sampling
from benchmarks.random_tokens import as_rollouts
from benchmarks.real_policy import RANK, random_vector, smollm2
from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.policy import Policy, sample, tiny_policy
from entrometer.runs import Rollouts

POLICIES: dict[str, Callable[[], Policy]] = {
    "tiny": lambda: tiny_policy(),
    "tiny, LoRA": lambda: tiny_policy(lora_rank=RANK, lora_std=0.01),
    "smollm2": lambda: smollm2("float32", std=0.01),
}
PRECISION = "float32"


@dataclass(frozen=True, eq=False)
class Case:
    """A pass over some responses."""

    kind: str
    """Passes of one kind share a rate."""

    name: str
    job: Callable[[], object]
    work: Callable[[Architecture], Work]


@dataclass(frozen=True)
class Sizes:
    """Responses, and their tokens with and without the prompt."""

    responses: int
    prompt: int
    response: int

    def __str__(self) -> str:
        return f"{self.responses} × ({self.prompt} + {self.response})"


FITTED = {
    "tiny": (Sizes(8, 12, 20), Sizes(48, 20, 64)),
    "tiny, LoRA": (Sizes(8, 12, 20), Sizes(48, 20, 64)),
    "smollm2": (Sizes(2, 24, 16), Sizes(6, 24, 24)),
}
"""Few responses, and a batch that no cache holds, of another length: where sequences go
one by one, calls and tokens would grow alike."""

ASKED = {
    "tiny": (Sizes(64, 24, 96),),
    "tiny, LoRA": (Sizes(64, 24, 96),),
    "smollm2": (Sizes(12, 24, 32),),
}


def cases(name: str, policy: Policy) -> tuple[list[Case], list[Case]]:
    """Those that the rates are fitted on, and those that are predicted."""
    known = [
        case
        for size in FITTED[name]
        for case in _all(policy, size, directions=(1,), ways=(1,))
    ]
    unknown = [
        case
        for size in ASKED[name]
        for case in _all(policy, size, directions=(1, 4), ways=(1, 3))
    ]
    return known, unknown


def _all(
    policy: Policy, size: Sizes, directions: tuple[int, ...], ways: tuple[int, ...]
) -> list[Case]:
    drawn = _rollouts(policy, size)
    x = Lengths.of(pairs(drawn))
    weights = GradientWeights(*np.random.default_rng(0).normal(size=(2, drawn.tokens)))
    v = [random_vector(policy, 0.01, seed) for seed in range(max(directions))]
    prompts = [[1] * size.prompt] * size.responses

    def draw() -> Rollouts:
        return sample(
            policy,
            prompts,
            prompt_ids=list(range(size.responses)),
            max_tokens=size.response,
            seed=0,
        )

    seen = Lengths.of(pairs(draw()))
    found = [
        Case(
            "draw",
            f"draw {size}",
            draw,
            lambda shape: sampling(shape, seen, PRECISION, size.response),
        ),
        Case(
            "forward",
            f"forward {size}",
            lambda: passes.forward(policy, drawn),
            lambda shape: costs.forward(shape, x, PRECISION),
        ),
        Case(
            "forward along",
            f"forward along {size}",
            lambda: passes.forward_along(policy, drawn, v[0], [1e-6]),
            lambda shape: costs.forward_along(shape, x, PRECISION),
        ),
        Case(
            "jvp2",
            f"jvp2 {size}",
            lambda: passes.jvp2(policy, drawn, v[0]),
            lambda shape: costs.jvp2(shape, x, PRECISION),
        ),
        Case(
            "rows",
            f"rows {size}",
            lambda: [part.rows for part in passes.per_sequence(policy, drawn, weights)],
            lambda shape: costs.rows(shape, x, PRECISION),
        ),
    ]
    found += [
        Case(
            "jvp",
            f"jvp of {D} {size}",
            partial(passes.jvp, policy, drawn, v[:D]),
            partial(costs.jvp, lengths=x, precision=PRECISION, directions=D),
        )
        for D in directions
    ]
    found += [
        Case(
            "vjp",
            f"vjp of {k} {size}",
            partial(passes.vjps, policy, drawn, [weights] * k),
            partial(costs.gradient, lengths=x, precision=PRECISION, ways=k),
        )
        for k in ways
    ]
    return found


def _rollouts(policy: Policy, size: Sizes) -> Rollouts:
    """Random tokens of lengths that vary by a quarter."""
    rng = np.random.default_rng(size.responses)
    V = policy.head_weight.shape[0]
    N = size.responses
    spread = rng.integers(3 * size.response // 4, size.response + 1, N)
    prompts = [rng.integers(0, V, size.prompt) for _ in range(N)]
    return as_rollouts(prompts, [rng.integers(0, V, length) for length in spread])
