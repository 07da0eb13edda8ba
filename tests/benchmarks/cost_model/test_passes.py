"""FLOP by formula against those that torch counts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from benchmarks.architectures.families import small_model
from benchmarks.cost_model.flops import Lengths, Work, parts
from benchmarks.cost_model.flops import passes as costs
from benchmarks.cost_model.flops.here import architecture_of
from benchmarks.cost_model.flops.lengths import pairs
from benchmarks.cost_model.flops.sampling import sampling
from entrometer import passes
from entrometer.calculus import scale
from entrometer.estimators import GradientWeights
from entrometer.policy import sample, tiny_policy
from entrometer.policy.mixtures import DIFFERENTIABLE
from tests.policy.small_models import as_policy, random_rollouts, with_adapter

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
            costs.forward(shape, x, "float32"),
        ),
        "jvp": (
            counted(lambda: passes.jvp(policy, rollouts, v[:1])),
            costs.jvp(shape, x, "float32", 1),
        ),
        "jvp of 3": (
            counted(lambda: passes.jvp(policy, rollouts, v)),
            costs.jvp(shape, x, "float32", 3),
        ),
        "jvp2": (
            counted(lambda: passes.jvp2(policy, rollouts, v[0])),
            costs.jvp2(shape, x, "float32"),
        ),
        "vjp": (
            counted(lambda: passes.vjp(policy, rollouts, weights)),
            costs.gradient(shape, x, "float32"),
        ),
        "vjps": (
            counted(lambda: passes.vjps(policy, rollouts, several)),
            costs.gradient(shape, x, "float32", ways=3),
        ),
        "rows": (
            counted(lambda: list(passes.per_sequence(policy, rollouts, weights))),
            costs.rows(shape, x, "float32"),
        ),
        "draw": (
            counted(lambda: draw(policy)),
            sampling(shape, x, "float32", MAX_TOKENS),
        ),
    }
    off = {name: told.flop / flop - 1 for name, (flop, told) in found.items()}
    assert {n: e for n, e in off.items() if abs(e) > 1 / 12} == {}


@pytest.mark.parametrize("ways", [1, 3])
def test_flop_of_layers_that_are_computed_again_are_those_that_torch_counts(
    policy, rollouts, ways
):
    """Every row is longer than the budget; one forward more per backward pass."""
    shape, x = architecture_of(policy), Lengths.of(pairs(rollouts))
    values = np.random.default_rng(0).normal(size=(ways, 2, rollouts.tokens))
    weights = [GradientWeights(*each) for each in values]
    flop = counted(lambda: passes.vjps(policy, rollouts, weights, budget=1))
    told = costs.vjp(shape, x.alone(), x.scored, "float32", ways, budget=1)
    kept = costs.vjp(shape, x.alone(), x.scored, "float32", ways)
    assert told.flop == pytest.approx(flop, rel=0.08)
    # The check tells one from the other.
    assert kept.flop < 0.9 * flop


@pytest.mark.parametrize("adapted", [False, True], ids=["whole", "adapters"])
def test_flop_of_a_mixture_are_those_of_the_chosen_experts(adapted):
    # Not only two layers: the first has no gradient of its input if it is frozen.
    model = small_model("qwen3_moe", num_hidden_layers=6)
    if adapted:
        modules = ["q_proj", "k_proj", "v_proj", "o_proj"]
        model = with_adapter(model, target_modules=modules)
    policy = as_policy(model, "float32")
    # Torch's table lacks grouped products.
    policy.base.set_experts_implementation(DIFFERENTIABLE)
    # Short, because of the fused attention.
    rollouts = random_rollouts(lengths=[(2, 4), (1, 5), (3, 3), (2, 3)])
    prompts = tuple(np.full_like(p, i) for i, p in enumerate(rollouts.prompt_tokens))
    rollouts = replace(rollouts, prompt_tokens=prompts)
    passes.jvp(policy, rollouts, [policy.trained()])
    shape, x = architecture_of(policy), Lengths.of(pairs(rollouts))
    weights = GradientWeights(*np.ones((2, rollouts.tokens)))
    v = [scale(policy.trained(), 0.1 * (1 + d)) for d in range(2)]
    found = {
        "forward": (
            counted(lambda: passes.forward(policy, rollouts)),
            costs.forward(shape, x, "float32"),
        ),
        "jvp": (
            counted(lambda: passes.jvp(policy, rollouts, v)),
            costs.jvp(shape, x, "float32", 2),
        ),
        "vjp": (
            counted(lambda: passes.vjp(policy, rollouts, weights)),
            costs.gradient(shape, x, "float32"),
        ),
    }
    off = {name: told.flop / flop - 1 for name, (flop, told) in found.items()}
    assert {n: e for n, e in off.items() if abs(e) > 1 / 12} == {}


def test_calls_follow_batches_directions_and_sequences(policy):
    """64 sequences of 128 tokens are two full batches."""
    shape, x = architecture_of(policy), Lengths.of([(28, 100)] * 64)
    assert costs.forward(shape, x, "float32").calls == 2
    assert costs.gradient(shape, x, "float32", ways=3).calls == 2
    assert costs.jvp(shape, x, "float32", 3).calls == 8
    assert costs.rows(shape, x, "float32").calls == (2 if shape.adapted else 64)
    assert costs.rows(shape, x, "float32", groups=8).calls == (
        8 if shape.adapted else 64
    )
    assert sampling(shape, x, "float32", 100).calls == 100


def test_bytes_are_halved_by_half_the_precision_but_for_the_head(policy):
    shape, x = architecture_of(policy), Lengths.of([(28, 100)] * 4)
    single, half = (
        parts.body(shape, x.batches(4096), b) for b in ("float32", "bfloat16")
    )
    assert half.bytes == single.bytes / 2
    assert half.weights == single.weights / 2 == 2 * shape.parameters
    single, half = (
        parts.head(shape, 400, b, count=1, traffic=6).bytes
        for b in ("float32", "bfloat16")
    )
    assert half == single


def test_a_head_reads_its_weight_again_for_every_chunk(policy):
    shape = architecture_of(policy)
    weight = 4 * shape.vocabulary * shape.width
    chunk = shape.head_chunk // (4 * shape.vocabulary)
    one, two = (
        parts.head(shape, n, "float32", count=1, traffic=0).bytes
        for n in (chunk, chunk + 1)
    )
    assert (one, two) == (weight, 2 * weight)


def test_a_head_is_in_float32_at_least(policy):
    shape = architecture_of(policy)
    half, single, double = (
        parts.head(shape, 9, b, count=1, traffic=1)
        for b in ("bfloat16", "float32", "float64")
    )
    assert half.single == single.flop == double.flop > 0
    assert half.flop == single.single == double.single == 0


def test_values_of_mixed_precision_are_in_float32_and_derivatives_are_not(policy):
    """The trained parameters' products and the head stay in float32."""
    shape, x = architecture_of(policy), Lengths.of([(28, 100)] * 4)
    value = costs.forward(shape, x, "mixed")
    slope = costs.jvp(shape, x, "mixed", 2)
    assert value.flop == 0
    assert value.single == pytest.approx(costs.forward(shape, x, "float32").flop)
    assert slope.flop == pytest.approx(
        2 * 512 * shape.linear * (3 if shape.adapted else 5)
    )


def test_long_sequences_skip_half_of_the_scores():
    assert parts.visible(parts.QUERY_CHUNK) == 1
    assert parts.visible(1 << 20) == pytest.approx(0.5, rel=1e-3)


def test_work_adds_up():
    assert Work(1, 2, 3, 4) + Work(4, 5, 6, 7) * 2 == Work(9, 12, 15, 18)
