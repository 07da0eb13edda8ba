"""FLOP by formula against those that torch counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from benchmarks.cost_model.flops import Lengths, Work
from benchmarks.cost_model.flops import passes as costs
from benchmarks.cost_model.flops.here import architecture_of
from benchmarks.cost_model.flops.lengths import pairs
from benchmarks.cost_model.flops.sampling import sampling
from entrometer import passes
from entrometer.calculus import scale
from entrometer.estimators import GradientWeights
from entrometer.policy import sample, tiny_policy

MAX_TOKENS = 12


@pytest.fixture(scope="module", params=[None, 4], ids=["whole", "adapters"])
def policy(request):
    return tiny_policy(lora_rank=request.param, lora_std=0.02)


def draw(policy):
    prompts = [[1] * 4] * 8
    return sample(
        policy, prompts, prompt_ids=list(range(8)), max_tokens=MAX_TOKENS, seed=0
    )


@pytest.fixture(scope="module")
def rollouts(policy):
    drawn = draw(policy)
    # Different prompts, because the formulas are those of one row per response.
    prompts = tuple(np.array([1, 1, 1, i]) for i in range(drawn.count))
    drawn = replace(drawn, prompt_tokens=prompts)
    # Tangent rules are held against forward-mode AD once, which is not counted.
    passes.jvp(policy, drawn, [policy.trained()])
    return drawn


class Flop(TorchDispatchMode):
    """By torch's own table; its own counter refuses the hooks of rows."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        # The table has addmm and baddbmm, and not the same in place.
        plain = getattr(torch.ops.aten, func._overloadpacket.__name__.rstrip("_"), None)
        if plain in flop_registry:
            count = flop_registry[plain]
            self.total += count(*args, **(kwargs or {}), out_val=found)
        return found


def counted(job):
    with Flop() as counter:
        job()
    return counter.total


def test_flop_of_every_pass_are_those_that_torch_counts(policy, rollouts):
    """Within a twelfth: adapters are merged, and torch's table lacks fused attention.

    So the sequences are short.
    """
    shape, x = architecture_of(policy), Lengths.of(pairs(rollouts))
    weights = GradientWeights(*np.ones((2, rollouts.tokens)))
    # Independent of one another: others would cost less.
    several = [
        GradientWeights(*x)
        for x in np.random.default_rng(0).normal(size=(3, 2, rollouts.tokens))
    ]
    v = [scale(policy.trained(), 0.1 * (1 + d)) for d in range(3)]
    found = {
        "forward": (
            counted(lambda: passes.forward(policy, rollouts)),
            costs.forward(shape, x, 4),
        ),
        "jvp": (
            counted(lambda: passes.jvp(policy, rollouts, v[:1])),
            costs.jvp(shape, x, 4, 1),
        ),
        "jvp of 3": (
            counted(lambda: passes.jvp(policy, rollouts, v)),
            costs.jvp(shape, x, 4, 3),
        ),
        "jvp2": (
            counted(lambda: passes.jvp2(policy, rollouts, v[0])),
            costs.jvp2(shape, x, 4),
        ),
        "vjp": (
            counted(lambda: passes.vjp(policy, rollouts, weights)),
            costs.gradient(shape, x, 4),
        ),
        "vjps": (
            counted(lambda: passes.vjps(policy, rollouts, several)),
            costs.gradient(shape, x, 4, ways=3),
        ),
        "rows": (
            counted(lambda: list(passes.per_sequence(policy, rollouts, weights))),
            costs.rows(shape, x, 4),
        ),
        "draw": (
            counted(lambda: draw(policy)),
            sampling(shape, x, 4, MAX_TOKENS),
        ),
    }
    off = {name: told.flop / flop - 1 for name, (flop, told) in found.items()}
    assert {n: e for n, e in off.items() if abs(e) > 1 / 12} == {}


def test_calls_follow_batches_directions_and_sequences(policy):
    """64 sequences of 128 tokens are two full batches."""
    shape, x = architecture_of(policy), Lengths.of([(28, 100)] * 64)
    assert costs.forward(shape, x, 4).calls == 2
    assert costs.gradient(shape, x, 4, ways=3).calls == 2
    assert costs.jvp(shape, x, 4, 3).calls == 8
    assert costs.rows(shape, x, 4).calls == (2 if shape.adapted else 64)
    assert costs.rows(shape, x, 4, groups=8).calls == (8 if shape.adapted else 64)
    assert sampling(shape, x, 4, 100).calls == 100


def test_bytes_are_halved_by_half_the_precision_but_for_the_head(policy):
    shape, x = architecture_of(policy), Lengths.of([(28, 100)] * 4)
    single, half = (costs.body(shape, x.batches(4096), b) for b in (4, 2))
    assert half.bytes == single.bytes / 2
    assert half.weights == single.weights / 2 == 2 * shape.parameters
    single, half = (
        costs.head(shape, 400, b, products=1, traffic=6).bytes for b in (4, 2)
    )
    assert half == single


def test_a_head_reads_its_weight_again_for_every_chunk(policy):
    shape = architecture_of(policy)
    weight = 4 * shape.vocabulary * shape.width
    chunk = costs.HEAD_CHUNK // (4 * shape.vocabulary)
    one, two = (
        costs.head(shape, n, 4, products=1, traffic=0).bytes for n in (chunk, chunk + 1)
    )
    assert (one, two) == (weight, 2 * weight)


def test_a_head_is_in_float32_at_least(policy):
    shape = architecture_of(policy)
    half, single, double = (
        costs.head(shape, 9, b, products=1, traffic=1) for b in (2, 4, 8)
    )
    assert half.single == single.flop == double.flop > 0
    assert half.flop == single.single == double.single == 0


def test_work_adds_up():
    assert Work(1, 2, 3, 4) + Work(4, 5, 6, 7) * 2 == Work(9, 12, 15, 18)
