"""Long responses: memory and time of a jvp, its attention, and whole commands."""

# Axes: M = 2 blocks (primal and tangent), B sequences, H query heads, K key heads,
# T tokens, C features of a head.

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional

from benchmarks.harness import Check, Report, worst
from benchmarks.long_context.agreement import errors
from benchmarks.long_context.end_to_end import LENGTH, peaks
from benchmarks.long_context.memory import added_mib
from benchmarks.long_context.subject import long_response, model_with_adapter
from benchmarks.real_policy import random_vector
from entrometer import passes
from entrometer.passes.batches import batches
from entrometer.policy.attention_tangents import attention_rule

LENGTHS = (1024, 2048, 4096, 8192)
TIMED = (4096, 8192)
ROUNDS = 5
Job = Callable[[], object]


def run() -> Report:
    # One thread, so that neither side of a ratio depends on how work is divided.
    torch.set_num_threads(1)
    memory = {T: added_mib(T) for T in LENGTHS}
    attention = {T: attention_over_fused(T) for T in TIMED}
    whole = {T: model_over_bound(T) for T in TIMED}
    apart = errors()
    commands = peaks()
    return Report(
        [
            Check(
                "long_context.memory_8k_over_1k",
                memory[LENGTHS[-1]] / memory[LENGTHS[0]],
                at_most=9,
            ),
            *(
                Check(f"long_context.attention_jvp_over_fused.{T}", r, at_most=4.2)
                for T, r in attention.items()
            ),
            *(
                Check(f"long_context.jvp_over_bound.{T}", w["over_bound"], at_most=1.2)
                for T, w in whole.items()
            ),
            *(
                Check(f"long_context.{verb}_gib.{LENGTH}", c["GiB"], at_most=4)
                for verb, c in commands.items()
            ),
            Check("long_context.variants", len(apart), at_least=32),
            Check("long_context.error", worst(list(apart.values())), at_most=1e-12),
        ],
        {
            "memory_mib": {str(T): round(x, 1) for T, x in memory.items()},
            "whole_model": {
                str(T): {name: round(x, 3) for name, x in w.items()}
                for T, w in whole.items()
            },
            "commands": commands,
            "rounds": ROUNDS,
        },
    )


def seconds(job: Job) -> float:
    """Processor time of the one thread that works: other load counts less."""
    gc.collect()
    start = time.thread_time()
    job()
    return time.thread_time() - start


def attention_over_fused(T: int, *, H: int = 9, K: int = 3, C: int = 64) -> float:
    """Time of attention's rule over torch's fused causal kernel: SmolLM2's heads."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 1, n, T, C, generator=generator) for n in (H, K, K))

    def fused() -> object:
        return functional.scaled_dot_product_attention(
            q[0], k[0], v[0], is_causal=True, enable_gqa=True
        )

    def rule() -> object:
        return attention_rule(q, k, v, None, C**-0.5, None)

    fused(), rule()
    pairs = ((seconds(fused), seconds(rule)) for _ in range(ROUNDS))
    return median(rule / fused for fused, rule in pairs)


def model_over_bound(T: int) -> dict[str, float]:
    r"""Time of a whole jvp over bare forwards, and over its bound $2 + f$.

    Linear layers do twice the work of a forward and attention three times, so a jvp
    costs $2(1 - f) + 3f$ with $f$ the share of attention in a causal forward.
    """
    policy, rollouts = model_with_adapter(), long_response(T)
    v = random_vector(policy, 0.01)
    prepared = list(batches(rollouts, device=policy.device, budget=2 * T))
    in_attention = 0.0
    fused = functional.scaled_dot_product_attention

    def timed(*args: Any, **settings: Any) -> torch.Tensor:
        nonlocal in_attention
        start = time.thread_time()
        out = fused(*args, **settings)
        in_attention += time.thread_time() - start
        return out

    def bare() -> None:
        nonlocal in_attention
        in_attention = 0.0
        with torch.no_grad():
            for b in prepared:
                policy.model(input_ids=b.input_ids, use_cache=False, **b.inputs)

    def jvp() -> str:
        return passes.jvp(policy, rollouts, [v]).by

    bare()
    assert jvp() == "tangent rules"
    ratios, shares = [], []
    for _ in range(ROUNDS):
        with patch.object(functional, "scaled_dot_product_attention", timed):
            forward = seconds(bare)
        shares.append(in_attention / forward)
        ratios.append(seconds(jvp) / forward)
    over_bare, f = median(ratios), median(shares)
    return {
        "over_bare": over_bare,
        "attention_share": f,
        "over_bound": over_bare / (2 + f),
    }
