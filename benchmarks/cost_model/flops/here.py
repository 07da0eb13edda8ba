"""The machine that this process computes on, and the sizes of a loaded policy."""

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.machine import Machine
from entrometer.policy import Policy

_SIDE = 768
"""Of the square matrices whose product is timed."""

_ELEMENTS = 1 << 23
"""Of the arrays that are added up: more than a cache holds."""


def measure_machine(policy: Policy, rounds: int = 20) -> Machine:
    """FLOP/s of a large product, and bytes/s of a sum of long arrays, here and now.

    In the policy's precision, on its device; the best of some rounds.
    """
    where: Any = {"device": policy.device, "dtype": policy.precision.dtype}
    x, y = torch.ones(2, _SIDE, _SIDE, **where)
    product = torch.empty_like(x)
    a, b = torch.ones(2, _ELEMENTS, **where)
    total = torch.empty_like(a)
    of_product = _least(lambda: torch.mm(x, y, out=product), policy.device, rounds)
    of_sum = _least(lambda: torch.add(a, b, out=total), policy.device, rounds)
    return Machine(
        flops=2 * _SIDE**3 / of_product,
        bandwidth=3 * _ELEMENTS * a.element_size() / of_sum,
    )


def _least(work: Callable[[], object], device: torch.device, rounds: int) -> float:
    work()
    found = []
    for _ in range(rounds):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - began)
    return min(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def architecture_of(policy: Policy) -> Architecture:
    """Return the sizes that its config tells, and the parameters that it has."""
    base: Any = policy.base
    config = base.config
    trained = policy.trained()
    width, heads = config.hidden_size, config.num_attention_heads
    each = getattr(config, "head_dim", None) or width // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    experts = getattr(config, "num_local_experts", None) or 0
    feed_forward = "moe_intermediate_size" if experts else "intermediate_size"
    embedding, head = base.get_input_embeddings(), base.get_output_embeddings()
    return Architecture(
        layers=config.num_hidden_layers,
        width=width,
        heads=heads,
        attention_width=heads * each,
        kv_width=kv_heads * each,
        feed_forward=getattr(config, feed_forward, None) or 4 * width,
        vocabulary=policy.head_weight.shape[0],
        parameters=sum(p.numel() for p in policy.model.parameters()),
        trained=sum(p.numel() for p in trained.values()),
        adapted=all(".lora_" in name for name in trained),
        tied=embedding.weight is head.weight,
        experts=experts,
        chosen=config.num_experts_per_tok if experts else 1,
    )
