"""Tangent rules are forward-mode AD, and leave no trace on the model."""

# Axes: M = 1 + D blocks, B sequences, T tokens, C features.

from contextlib import nullcontext

import pytest
import torch
from peft import LoraConfig
from torch import nn
from torch.func import jvp
from transformers.activations import ACT2FN

from entrometer import calculus
from entrometer.policy.adapted_linear import (
    LinearRule,
    LinearTangent,
    adapter,
    is_adapted,
)
from entrometer.policy.adapted_parameters import functional_wrappers
from entrometer.policy.architectures import NORMS, UnknownArchitecture, kind
from entrometer.policy.module_tangents import gated_rule, norm_rule
from entrometer.policy.tangents import tangent_rules
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    direction,
    functional,
    relative,
    small_model,
    small_policy,
    with_adapter,
)

# The second sequence is padded on the left, the third on the right.
MASK = torch.tensor([[1] * 10, [0] * 4 + [1] * 6, [1] * 7 + [0] * 3])
INPUTS = {
    "attention_mask": MASK,
    "position_ids": (MASK.cumsum(1) - 1).clamp(min=0),
}
IDS = torch.arange(3, 33).view(3, 10)


def policy_of(name, lora=True):
    if name == "tiny":
        rank = 2 if lora else None
        return tiny_policy(lora_rank=rank, lora_std=0.05, precision="float64")
    return small_policy(name, lora=lora)


def carried(policy, directions):
    with tangent_rules(policy, directions) as propagator:
        return propagator.hidden(IDS, **INPUTS)[:, MASK.bool()]


def by_forward_mode(policy, v):
    """Hidden states and their tangent, by torch on the model as it is."""
    call = functional(policy.base)

    def f(params):
        inner = {n.removeprefix("base_model.model."): p for n, p in params.items()}
        out = call(inner, input_ids=IDS, output_hidden_states=True, **INPUTS)
        return (out.hidden_states[-1][MASK.bool()],)

    with torch.no_grad():
        (primal,) = f(policy.trained())
    with functional_wrappers(policy.model):
        found = calculus.jvp(f, policy.trained(), v)
    return primal, found.first[0]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_rules_are_forward_mode_ad(name, lora):
    policy = policy_of(name, lora)
    v = direction(policy)
    primal, tangent = by_forward_mode(policy, v)
    found = carried(policy, [v])
    assert relative(found[0], primal) < 1e-13
    assert relative(found[1], tangent) < 1e-13


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_several_directions_are_the_same_as_one_by_one(name, lora):
    policy = policy_of(name, lora)
    directions = [direction(policy, seed=seed) for seed in range(3)]
    together = carried(policy, directions)
    for d, v in enumerate(directions):
        alone = carried(policy, [v])
        assert relative(together[0], alone[0]) < 1e-14
        assert relative(together[1 + d], alone[1]) < 1e-13


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_rules_in_float32_are_as_exact_as_float32(name):
    exact = small_policy(name)
    rounded = small_policy(name, precision="float32")
    expected = carried(exact, [direction(exact)])
    found = carried(rounded, [direction(rounded)])
    assert found.dtype is torch.float32
    assert relative(found[0], expected[0]) < 1e-6
    assert relative(found[1], expected[1]) < 2e-6


def test_without_a_direction_there_is_the_primal_alone():
    policy = small_policy("gemma2")
    with torch.no_grad():
        expected = policy.hidden(IDS, **INPUTS)[MASK.bool()]
    found = carried(policy, [])
    assert len(found) == 1
    assert relative(found[0], expected) < 1e-14


def test_a_direction_on_some_adapters_leaves_the_others_still():
    policy = small_policy("llama")
    v = direction(policy)
    parts = [{n: x for n, x in v.items() if f"layers.{i}." in n} for i in (0, 1)]
    whole = carried(policy, [v])[1]
    first, second = carried(policy, parts)[1:]
    assert relative(first + second, whole) < 1e-13
    assert relative(first, whole) > 0.1


def test_an_adapter_on_a_few_layers_is_enough():
    model = with_adapter(small_model("qwen3"), target_modules=["q_proj", "up_proj"])
    policy = as_policy(model)
    v = direction(policy)
    assert relative(carried(policy, [v])[1], by_forward_mode(policy, v)[1]) < 1e-13


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_model_is_as_it_was_afterwards(name, fails, precision):
    """Its forwards, its attention and its outputs, to the bit; also after an error."""
    policy = small_policy(name, precision=precision)
    v = direction(policy)
    traces = [dict(module.__dict__) for module in policy.model.modules()]
    implementation = policy.base.config._attn_implementation
    with torch.no_grad():
        before = policy.model(input_ids=IDS, **INPUTS).logits
    ids = IDS + 10_000 if fails else IDS
    with pytest.raises(IndexError) if fails else nullcontext():  # noqa: SIM117
        with tangent_rules(policy, [v]) as propagator:
            propagator.hidden(IDS, **INPUTS)
            propagator.hidden(ids, **INPUTS)
    assert policy.base.config._attn_implementation == implementation
    for module, was in zip(policy.model.modules(), traces, strict=True):
        now = module.__dict__
        assert now.keys() == was.keys(), kind(module)
        assert now.get("forward") is was.get("forward"), kind(module)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert torch.equal(policy.model(input_ids=IDS, **INPUTS).logits, before)


def test_a_direction_on_another_parameter_has_no_rule_and_is_named():
    policy = small_policy("llama")
    v = direction(policy) | {"base_model.model.model.norm.shift": torch.ones(64)}
    with (
        pytest.raises(UnknownArchitecture, match=r"model\.norm\.shift' and 0 others"),
        tangent_rules(policy, [v]),
    ):
        pass


def test_an_unknown_architecture_has_no_rules():
    policy = as_policy(with_adapter(small_model("qwen3_next")), "float32")
    with (
        pytest.raises(UnknownArchitecture, match="tangent rules, got Qwen3Next"),
        tangent_rules(policy, [direction(policy)]),
    ):
        pass


def test_an_activation_without_a_rule_is_refused_and_the_model_restored():
    policy = small_policy("llama", hidden_act="relu")
    with pytest.raises(UnknownArchitecture, match="SiLU or GELU gate, got ReLU"):
        carried(policy, [direction(policy)])
    linear = [m for m in policy.body.modules() if isinstance(m, nn.Linear)]
    assert not any("forward" in m.__dict__ for m in linear)


@pytest.mark.parametrize("saved", ["q_norm", "embed_tokens", "v_proj"])
def test_trained_weights_beside_adapters_have_rules(saved):
    """PEFT trains a copy of the module and keeps the original."""
    adapted = ["q_proj", "down_proj"]
    model = small_model("qwen3")
    policy = as_policy(
        with_adapter(model, target_modules=adapted, modules_to_save=[saved])
    )
    v = direction(policy)
    assert any(saved in name for name in v)
    assert relative(carried(policy, [v])[1], by_forward_mode(policy, v)[1]) < 1e-13


def test_a_trained_weight_below_its_adapter_has_a_rule():
    policy = small_policy("qwen2")
    for name, p in policy.model.named_parameters():
        p.requires_grad_(p.requires_grad or "v_proj.base_layer" in name)
    v = direction(policy)
    assert len([name for name in v if "base_layer.bias" in name]) == 2
    assert relative(carried(policy, [v])[1], by_forward_mode(policy, v)[1]) < 1e-13


def test_a_direction_of_another_shape_is_refused():
    """A row would be added to every row of the weight."""
    policy = small_policy("llama", lora=False)
    v = direction(policy)
    name = "model.layers.0.mlp.up_proj.bias"
    with pytest.raises(ValueError, match=r"up_proj.bias': expected shape \(96,\)"):
        carried(policy, [v | {name: v[name][:1]}])


def test_a_direction_of_another_rank_is_refused():
    """Stacked with the adapter's own, it would give numbers all the same."""
    policy = small_policy("llama")
    v = {
        name: randn(2, p.shape[1]) if "lora_A" in name else randn(p.shape[0], 2)
        for name, p in policy.trained().items()
    }
    with pytest.raises(ValueError, match="expected shape"):
        carried(policy, [v])


@pytest.mark.parametrize(
    "change", [{"use_dora": True}, {"lora_bias": True}], ids=["DoRA", "bias"]
)
def test_an_adapter_that_is_not_plain_is_refused(change):
    model = with_adapter(small_model("llama"), target_modules=["q_proj"], **change)
    with pytest.raises(UnknownArchitecture, match="plain low-rank adapter"):
        carried(as_policy(model), [])


def test_a_merged_adapter_is_refused():
    policy = small_policy("llama")
    policy.model.merge_adapter()
    with pytest.raises(UnknownArchitecture, match="merged"):
        carried(policy, [])


def test_an_adapter_that_is_switched_off_does_not_count():
    policy = small_policy("llama")
    with policy.model.disable_adapter(), torch.no_grad():
        expected = policy.hidden(IDS, **INPUTS)[MASK.bool()]
        try:
            found = carried(policy, [])
        except UnknownArchitecture:
            return
    assert relative(found[0], expected) < 1e-13


def test_an_adapter_on_the_embedding_is_refused():
    model = with_adapter(
        small_model("llama"), target_modules=["q_proj", "embed_tokens"]
    )
    with pytest.raises(UnknownArchitecture, match=r"on linear layers, got .*Embed"):
        carried(as_policy(model), [])


def test_an_adapter_that_another_one_lacks_is_still_carried():
    """Two adapters on different layers, the first of them active."""
    model = with_adapter(small_model("llama"), target_modules=["q_proj"])
    model.add_adapter("other", LoraConfig(r=2, target_modules=["v_proj"]))
    policy = as_policy(model)
    v = direction(policy)
    try:
        found = carried(policy, [v])
    except UnknownArchitecture:
        return
    assert relative(found[1], by_forward_mode(policy, v)[1]) < 1e-13


def test_the_adapter_of_a_layer_is_found_with_its_scale():
    policy = tiny_policy(lora_rank=2, lora_std=0.05)
    layer = policy.body.layers[0].self_attn.q_proj
    assert is_adapted(layer)
    assert not is_adapted(layer.base_layer)
    A, B, s = adapter(layer)
    x = torch.randn(3, 128, generator=generator())
    expected = layer.base_layer(x) + s * (x @ A.T) @ B.T
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)
    assert s == 2.0


# Each rule alone, on stacked blocks: the primal and two tangents.


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_rule_of_each_norm_is_its_derivative(name):
    policy = small_policy(name)
    for norm in (m for m in policy.body.modules() if kind(m) in NORMS):
        C = len(norm.weight)
        x, gain = randn(3, 2, 4, C), norm.weight.detach()
        call = functional(norm)
        # Along the first direction the gain rests.
        dg = [None, randn(C, seed=1)]
        found = norm_rule(norm, x, dg).detach()
        for d, tangent_of_gain in enumerate([torch.zeros(C).double(), dg[1]], start=1):
            value, tangent = jvp(
                lambda g, x, call=call: call({"weight": g}, x),
                (gain, x[0]),
                (tangent_of_gain, x[d]),
            )
            assert relative(found[0], value) < 1e-14
            assert relative(found[d], tangent) < 1e-14


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_pytorch_tanh"])
def test_the_rule_of_a_gate_is_its_derivative(name):
    f = ACT2FN[name]
    gate, up = randn(3, 2, 4, 7), randn(3, 2, 4, 7, seed=1)
    found = gated_rule(f, gate.clone(), up.clone())
    for d in (1, 2):
        value, tangent = jvp(lambda g, u: f(g) * u, (gate[0], up[0]), (gate[d], up[d]))
        assert relative(found[0], value) < 1e-14
        assert relative(found[d], tangent) < 1e-14


@pytest.mark.parametrize("name", ["gelu_new", "relu", "quick_gelu"])
def test_another_gate_has_no_rule(name):
    x = randn(2, 3, 4)
    with pytest.raises(UnknownArchitecture, match="expected a SiLU or GELU gate"):
        gated_rule(ACT2FN[name], x, x.clone())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_the_rule_of_an_adapted_layer_is_its_derivative(bias, whole):
    """Along the adapter alone, and along weight and bias as well."""
    layer = small_policy("llama", attention_bias=bias).body.layers[0].self_attn.q_proj
    names = ["lora_A.default.weight", "lora_B.default.weight"]
    if whole:
        names += ["base_layer.weight"] + ["base_layer.bias"] * bias
    own = dict(layer.named_parameters())
    params = {n: own[n].detach() for n in names}
    tangents = [
        {n: randn(*p.shape, seed=seed) for n, p in params.items()} for seed in (1, 2)
    ]
    rule = LinearRule(
        layer,
        [
            LinearTangent(
                t.get("base_layer.weight"),
                t.get("base_layer.bias"),
                (t["lora_A.default.weight"], t["lora_B.default.weight"]),
            )
            for t in tangents
        ],
    )
    x = randn(3, 5, 64)
    with torch.no_grad():
        found = rule(x)
        for d in (1, 2):
            value, tangent = jvp(
                lambda p, x: functional(layer)(p, x),
                (params, x[0]),
                (tangents[d - 1], x[d]),
            )
            assert relative(found[0], value) < 1e-14
            assert relative(found[d], tangent) < 1e-14
