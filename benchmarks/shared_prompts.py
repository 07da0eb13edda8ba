"""Time of responses that share their prompt over one row each, on SmolLM2, one thread.

Ratios are of the passes as a whole. The head of the vocabulary works on response tokens
alone, of which there are as many either way.
"""

# Axes: P tokens of the prompt, R of each response, G responses.

import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from benchmarks.harness import Check, Report, worst
from benchmarks.random_tokens import as_rollouts
from benchmarks.real_policy import random_vector, smollm2
from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.passes.batches import Padding, batches
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

GROUP = 8
LENGTH = 128
"""Tokens of the prompt, and of each response."""

ROUNDS = 3
LEAST = 0.8
"""Least saving in time, relative to the saving in tokens."""

Job = Callable[[Padding | None], np.ndarray]
"""A pass in rows of one response (`right`) or shared (None): what it returned."""


def run() -> Report:
    # One thread, so that neither side depends on how work is divided.
    torch.set_num_threads(1)
    policy = smollm2("float32", std=0.01)
    rollouts = group_of_responses(LENGTH, LENGTH)
    tokens = {
        shared: sum(
            b.input_ids.numel()
            for b in batches(rollouts, device=policy.device, shared=shared)
        )
        for shared in (False, True)
    }
    saved = 1 - tokens[True] / tokens[False]
    checks, ratios, errors = [], {}, []
    for name, job in jobs(policy, rollouts).items():
        error, ratio = shared_over_separate(job)
        errors.append(error)
        ratios[name] = round(ratio, 3)
        realised = (1 - ratio) / saved
        checks.append(Check(f"shared_prompts.{name}", realised, at_least=LEAST))
    return Report(
        [*checks, Check("shared_prompts.error", worst(errors), at_most=1e-4)],
        {
            "tokens": {"separate": tokens[False], "shared": tokens[True]},
            "time_shared_over_separate": ratios,
            "rounds": ROUNDS,
        },
    )


def shared_over_separate(job: Job) -> tuple[float, float]:
    """Return the relative difference of the results, and the ratio of the times."""
    separate, shared = job("right"), job(None)
    error = np.linalg.norm(shared - separate) / np.linalg.norm(separate)
    ratios = []
    for _ in range(ROUNDS):
        first, second = seconds(job, "right"), seconds(job, None)
        ratios.append(second / first)
    return float(error), median(ratios)


def seconds(job: Job, padding: Padding | None) -> float:
    """Processor time of the one thread that works: other load counts less."""
    gc.collect()
    start = time.thread_time()
    job(padding)
    return time.thread_time() - start


def jobs(policy: Policy, rollouts: Rollouts) -> dict[str, Job]:
    v = random_vector(policy, 0.01)
    S, H = np.random.default_rng(1).normal(size=(2, rollouts.tokens))

    def forward(padding: Padding | None) -> np.ndarray:
        return passes.forward(policy, rollouts, padding=padding).H

    def jvp(padding: Padding | None) -> np.ndarray:
        found = passes.jvp(policy, rollouts, [v], padding=padding)
        assert found.by == "tangent rules"
        return found.tangents[0].dH

    def vjp(padding: Padding | None) -> np.ndarray:
        weights = GradientWeights(S=S, H=H)
        gradient = passes.vjp(policy, rollouts, weights, padding=padding).gradient
        return np.concatenate([g.flatten().numpy() for g in gradient.values()])

    return {"forward": forward, "jvp": jvp, "vjp": vjp}


def group_of_responses(P: int, R: int) -> Rollouts:
    """Return responses of random tokens to one prompt."""
    rng = np.random.default_rng(0)
    prompt, *responses = (rng.integers(100, 40_000, n) for n in [P, *[R] * GROUP])
    return as_rollouts([prompt] * GROUP, responses, groups=[0] * GROUP)
