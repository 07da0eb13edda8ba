"""Mixed precision: bfloat16 frozen weights give float32 values and near derivatives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import LoraConfig
from torch import nn

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.policy import load_policy, sample
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, ready
from entrometer.policy.tiny import tiny_policy
from tests.policy.saved_models import save_adapter
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    direction,
    random_rollouts,
    random_weights,
    relative,
    small_model,
    with_adapter,
)

_MIXTURES = ("mixtral", "qwen3_moe", "glm4_moe", "deepseek_v3", "gpt_oss")
# Of which the layers of mixtures have the first three or the fourth.
_ATTENTION = {"q_proj", "v_proj", "o_proj", "kv_b_proj"}


def adapted(name: str) -> nn.Module:
    """A small model with adapters on linear layers, on no experts."""
    model = small_model(name)
    linear = {
        n.rpartition(".")[2]
        for n, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }
    targets = linear & _ATTENTION if name in _MIXTURES else linear - {"lm_head"}
    return with_adapter(model, target_modules=sorted(targets))


def rounded(model: nn.Module) -> nn.Module:
    """The model with its frozen weights rounded to bfloat16."""
    for p in model.parameters():
        if not p.requires_grad:
            p.data = p.data.bfloat16().float()
    return model


def both(name: str, truth: str = "float32") -> tuple[Policy, Policy]:
    return as_policy(adapted(name), "mixed"), as_policy(rounded(adapted(name)), truth)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_values_are_float32_of_rounded_weights(name):
    mixed, single = both(name)
    rollouts, v = random_rollouts(), direction(single)
    for got, expected in (
        (passes.forward(mixed, rollouts), passes.forward(single, rollouts)),
        (passes.concentration(mixed, rollouts), passes.concentration(single, rollouts)),
        (
            passes.forward_along(mixed, rollouts, v, [1e-4])[0],
            passes.forward_along(single, rollouts, v, [1e-4])[0],
        ),
    ):
        for mine, theirs in zip(got, expected, strict=True):
            assert relative(mine, theirs) < 1e-6


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_derivatives_are_near_those_in_float64(name):
    mixed, exact = both(name, "float64")
    # A token at a tie of two experts may get the other one: one of 22 tokens here.
    limit = 0.2 if name in _MIXTURES else 0.04
    rollouts, v = random_rollouts(), direction(mixed)
    got, expected = (passes.jvp(p, rollouts, [v]) for p in (mixed, exact))
    assert got.by == "tangent rules"
    for mine, theirs in zip(got.tangents[0], expected.tangents[0], strict=True):
        # Exact agreement would mean that nothing was rounded.
        assert 1e-4 < relative(mine, theirs) < limit
    weights = random_weights(rollouts)
    mine, theirs = (
        torch.cat([g.double().flatten() for g in found.values()]).numpy()
        for found in (passes.vjp(p, rollouts, weights).gradient for p in (mixed, exact))
    )
    assert 1e-4 < relative(mine, theirs) < limit


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "deepseek_v3", "gpt_oss"])
def test_gradients_of_sequences_sum_to_the_gradient(name):
    mixed, _ = both(name)
    rollouts = random_rollouts()
    weights = random_weights(rollouts)
    gradient = passes.vjp(mixed, rollouts, weights).gradient
    rows = list(passes.per_sequence(mixed, rollouts, weights))
    for n, g in gradient.items():
        assert g.dtype is torch.float32
        total = sum(part.gradients[n].sum(0) for part in rows)
        assert relative(total, g) < 0.01


@pytest.mark.parametrize(
    "name", ["llama", "mistral", "gemma3_text", "mixtral", "deepseek_v3", "gpt_oss"]
)
def test_responses_that_share_a_prompt_are_alike(name):
    mixed, exact = both(name, "float64")
    drawn = random_rollouts(lengths=[(6, 9), (6, 4), (6, 12)])
    shared = (drawn.prompt_tokens[0],) * 3
    rollouts = replace(drawn, prompt=np.zeros(3, np.int64), prompt_tokens=shared)
    weights = random_weights(rollouts)
    got, expected = (passes.forward(p, rollouts).H for p in (mixed, exact))
    assert relative(got, expected) < 1e-5
    got, expected = (
        torch.cat([g.double().flatten() for g in found.values()]).numpy()
        for found in (
            passes.vjp(mixed, rollouts, weights).gradient,
            passes.vjp(exact, rollouts, weights, padding="right").gradient,
        )
    )
    assert relative(got, expected) < (0.2 if name in _MIXTURES else 0.04)


def test_second_derivatives_are_in_float32():
    mixed, exact = both("llama", "float64")
    rollouts, v = random_rollouts(), direction(mixed)
    got, expected = (passes.jvp2(p, rollouts, v) for p in (mixed, exact))
    assert relative(got.curvatures.ddH, expected.curvatures.ddH) < 1e-4


def test_a_small_finite_change_is_that_of_float32():
    """In bfloat16 the same change is rounding alone."""
    errors = {}
    rollouts = random_rollouts()
    exact = as_policy(rounded(adapted("llama")))
    v = direction(exact)
    for name in ("float64", "float32", "mixed", "bfloat16"):
        policy = as_policy(rounded(adapted("llama")), name)
        (there,) = passes.forward_along(policy, rollouts, v, [1e-4])
        errors[name] = there.H - passes.forward(policy, rollouts).H
    truth = errors.pop("float64")
    errors = {name: relative(change, truth) for name, change in errors.items()}
    assert errors["float32"] < 0.05
    assert errors["mixed"] == pytest.approx(errors["float32"], rel=1e-3)
    assert errors["bfloat16"] > 1


def test_passes_leave_every_bit_of_the_weights():
    mixed, _ = both("mixtral")
    before = {n: p.clone() for n, p in mixed.model.named_parameters()}
    rollouts, v = random_rollouts(), direction(mixed)
    passes.forward_along(mixed, rollouts, v, [1e-3])
    passes.jvp(mixed, rollouts, [v])
    passes.vjp(mixed, rollouts, random_weights(rollouts))
    for n, p in mixed.model.named_parameters():
        assert p.dtype is before[n].dtype
        assert torch.equal(p, before[n]), n


def test_matrices_are_held_in_two_bytes_and_adapters_in_four():
    mixed, _ = both("gpt_oss")
    for n, p in mixed.model.named_parameters():
        few = p.ndim == 1 or "router" in n or "bias" in n
        wide = p.requires_grad or few
        assert p.dtype is (torch.float32 if wide else torch.bfloat16), n


def test_sampling_is_that_of_float32():
    mixed, single = (
        Policy(ready(model, named), tiny_policy().tokenizer, named, "tiny")
        for model, named in (
            (tiny_policy(lora_rank=2, lora_std=0.05).model, Precision.MIXED),
            (
                rounded(tiny_policy(lora_rank=2, lora_std=0.05).model),
                Precision.FLOAT32,
            ),
        )
    )
    got, expected = (
        sample(p, [[3, 4], [5]], prompt_ids=[0, 1], max_tokens=12, seed=0)
        for p in (mixed, single)
    )
    for mine, theirs in zip(got.response_tokens, expected.response_tokens, strict=True):
        assert np.array_equal(mine, theirs)


def test_a_policy_without_adapter_is_refused(tiny_directory):
    with pytest.raises(InvalidValue, match=r"adapter.*all trained; use precision"):
        load_policy(tiny_directory, precision="mixed")
    with pytest.raises(InvalidValue, match="adapter"):
        load_policy("tiny", precision="mixed")
    with pytest.raises(InvalidValue, match="adapter"):
        ready(small_model("llama"), Precision.MIXED)


def test_adapters_on_experts_are_refused():
    """PEFT would round their change to the precision of the experts."""
    model = with_adapter(small_model("mixtral"), target_modules="all-linear")
    with pytest.raises(UnknownArchitecture, match="adapters on linear layers"):
        ready(model, Precision.MIXED)


@pytest.mark.parametrize("stored", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["gemma3_text", "deepseek_v3", "gpt_oss"])
def test_a_loaded_adapter_has_the_values_of_float32(name, stored, tmp_path):
    """Nothing is made in the precision of loading but the weights."""
    base = rounded(small_model(name))
    for p in base.parameters():
        p.data = p.data.bfloat16().float()
    base.to(getattr(torch, stored)).save_pretrained(tmp_path / "base")
    tokenizer = tiny_policy().tokenizer
    tokenizer.save_pretrained(tmp_path / "base")
    config = LoraConfig(
        r=3, target_modules=["o_proj"], task_type="CAUSAL_LM", init_lora_weights=False
    )
    directory = save_adapter(tmp_path / "base", tmp_path / "adapter", config)
    mixed, single = (
        load_policy(directory, base=tmp_path / "base", precision=p)
        for p in ("mixed", "float32")
    )
    rollouts = random_rollouts()
    got, expected = (passes.forward(p, rollouts) for p in (mixed, single))
    assert relative(got.S, expected.S) < 1e-6
    assert relative(got.H, expected.H) < 1e-6
