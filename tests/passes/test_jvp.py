"""Derivatives along directions: by rules or by AD, the same and the right ones."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from entrometer import calculus, passes
from entrometer.errors import EntrometerError, MissingKey
from entrometer.policy.adapted_parameters import functional_wrappers
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    direction,
    plain_function,
    plain_tables,
    random_rollouts,
    relative,
    small_model,
    small_policy,
    with_adapter,
)

RULES, AD = "tangent rules", "forward-mode AD"
ORDER = np.array([2, 0, 3, 1])


def tiny(lora, precision="float64"):
    rank = 2 if lora else None
    return tiny_policy(lora_rank=rank, lora_std=0.05, precision=precision)


def policy_of(name, lora=True):
    return tiny(lora) if name == "tiny" else small_policy(name, lora=lora)


def assert_plain(policy, rollouts, found, v, limit=1e-12):
    """As AD of whole logits has it, one sequence at a time."""
    params = {name: policy.trained()[name] for name in v}
    with functional_wrappers(policy.model):
        expected = calculus.jvp(plain_function(policy, rollouts), params, v)
    assert relative(found.dS, expected.first[0]) < limit
    assert relative(found.dH, expected.first[1]) < limit


def assert_differences(policy, rollouts, found, v, step=1e-5, limit=1e-7):
    up, down = passes.forward_along(policy, rollouts, v, [step, -step])
    assert relative((up.S - down.S) / (2 * step), found.dS) < limit
    assert relative((up.H - down.H) / (2 * step), found.dH) < limit


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_it_is_forward_mode_ad_of_whole_logits(name, lora):
    """With a head of its own, a tied one, soft caps, windows, adapters or none."""
    policy, rollouts = policy_of(name, lora), random_rollouts()
    v = direction(policy)
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == RULES
    expected = plain_tables(policy, rollouts)
    assert relative(found.tables.S, expected.S) < 1e-13
    assert relative(found.tables.H, expected.H) < 1e-13
    assert_plain(policy, rollouts, found.tangents[0], v)


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rules_and_ad_agree_through_the_whole_pass(name, lora):
    policy, rollouts = small_policy(name, lora=lora), random_rollouts()
    v = direction(policy)
    by_rules = passes.jvp(policy, rollouts, [v])
    make_unknown(policy)
    by_ad = passes.jvp(policy, rollouts, [v])
    assert (by_rules.by, by_ad.by) == (RULES, AD)
    assert relative(by_rules.tangents[0].dS, by_ad.tangents[0].dS) < 1e-12
    assert relative(by_rules.tangents[0].dH, by_ad.tangents[0].dH) < 1e-12


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_neither_padding_nor_budget_nor_order_changes_a_number(name, lora):
    policy, rollouts = small_policy(name, lora=lora), random_rollouts()
    v = direction(policy)
    alone = passes.jvp(policy, rollouts, [v], budget=1).tangents[0]
    for padding in ("right", "left"):
        for budget in (40, 10_000):
            found = passes.jvp(policy, rollouts, [v], budget=budget, padding=padding)
            assert relative(found.tangents[0].dS, alone.dS) < 1e-12
            assert relative(found.tangents[0].dH, alone.dH) < 1e-12
    turned = passes.jvp(policy, rollouts.select(ORDER), [v]).tangents[0]
    start = passes.layout(rollouts).start
    columns = np.concatenate([np.arange(start[i], start[i + 1]) for i in ORDER])
    assert relative(turned.dS, alone.dS[columns]) < 1e-12
    assert relative(turned.dH, alone.dH[columns]) < 1e-12


@pytest.mark.parametrize("lora", [True, False])
def test_several_directions_are_the_same_as_one_by_one(lora):
    policy, rollouts = tiny(lora), random_rollouts()
    directions = [direction(policy, seed=seed) for seed in range(3)]
    together = passes.jvp(policy, rollouts, directions)
    for v, found in zip(directions, together.tangents, strict=True):
        (alone,) = passes.jvp(policy, rollouts, [v]).tangents
        assert relative(found.dS, alone.dS) < 1e-12
        assert relative(found.dH, alone.dH) < 1e-12


def test_it_is_linear_in_the_direction():
    policy, rollouts = tiny(lora=True), random_rollouts()
    v, w = direction(policy), direction(policy, seed=1)
    mixed = calculus.add(v, w, scale=-2.5)
    a, b, both = passes.jvp(policy, rollouts, [v, w, mixed]).tangents
    assert relative(both.dS, a.dS - 2.5 * b.dS) < 1e-12
    assert relative(both.dH, a.dH - 2.5 * b.dH) < 1e-12


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_is_part_of_the_policy(temperature):
    policy, rollouts = small_policy("gemma2"), random_rollouts(temperature=temperature)
    v = direction(policy)
    (found,) = passes.jvp(policy, rollouts, [v]).tangents
    assert_plain(policy, rollouts, found, v)


@pytest.mark.parametrize("lora", [True, False])
def test_float32_has_the_derivatives_of_float64_to_float32(lora):
    rollouts = random_rollouts()
    exact, rounded = tiny(lora), tiny(lora, "float32")
    (expected,) = passes.jvp(exact, rollouts, [direction(exact)]).tangents
    (found,) = passes.jvp(rounded, rollouts, [direction(rounded)]).tangents
    assert relative(found.dS, expected.dS) < 5e-6
    assert relative(found.dH, expected.dH) < 5e-6


def test_bfloat16_has_derivatives_near_those_of_float32():
    """With a trained head, whose tangent is widened as its weight is."""
    rollouts = random_rollouts()
    rounded, policy = (tiny(False, p) for p in ("bfloat16", "float32"))
    v = direction(policy)
    along = {name: x.bfloat16() for name, x in v.items()}
    (found,) = passes.jvp(rounded, rollouts, [along]).tangents
    (expected,) = passes.jvp(policy, rollouts, [v]).tangents
    assert relative(found.dH, expected.dH) < 0.1


@pytest.mark.parametrize(
    "names", [("lm_head.weight",), ("model.norm.weight", "lm_head.weight")]
)
def test_a_direction_on_a_few_parameters_goes_by_rules(names):
    policy, rollouts = small_policy("llama", lora=False), random_rollouts()
    whole = direction(policy)
    v = {name: whole[name] for name in names}
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == RULES
    assert_plain(policy, rollouts, found.tangents[0], v)


def test_a_trained_norm_beside_adapters_goes_by_rules():
    model = with_adapter(small_model("qwen3"), modules_to_save=["q_norm"])
    policy, rollouts = as_policy(model), random_rollouts()
    v = direction(policy)
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == RULES
    assert_plain(policy, rollouts, found.tangents[0], v)


def make_unknown(policy):
    """The same model under a class name that nothing is known of."""
    base = policy.base
    base.__class__ = type("StrangeForCausalLM", (type(base),), {})


@pytest.mark.parametrize("name", ["exaone4", "seed_oss"])
def test_an_unknown_architecture_goes_by_ad_and_says_so(name):
    policy = as_policy(with_adapter(small_model(name)), "float32")
    rollouts = random_rollouts()
    v = direction(policy)
    before = policy.base.config._attn_implementation
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == AD
    assert policy.base.config._attn_implementation == before
    assert relative(found.tables.S, passes.forward(policy, rollouts).S) < 1e-6
    # Transformers' own attention with a forward derivative.
    policy.base.set_attn_implementation("eager")
    assert_plain(policy, rollouts, found.tangents[0], v, limit=1e-5)


def bend(policy, strength=0.3):
    """Add a term to a decoder layer that no tangent rule knows: a square."""
    layer = policy.body.layers[1]
    plain = layer.forward

    def forward(*args, **kwargs):
        y = plain(*args, **kwargs)
        return y + strength * y.square()

    layer.forward = forward


def test_a_model_that_computes_something_else_is_noticed_and_goes_by_ad():
    policy, rollouts = tiny(lora=True), random_rollouts()
    bend(policy)
    v = direction(policy)
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == AD
    assert_differences(policy, rollouts, found.tangents[0], v)


@pytest.mark.parametrize(
    ("precision", "scale"), [("float32", 1e-5), ("float64", 1e-12)]
)
def test_it_is_noticed_however_small_the_direction(precision, scale):
    policy, rollouts = tiny(True, precision), random_rollouts()
    bend(policy)
    v = direction(policy, scale=scale)
    assert passes.jvp(policy, rollouts, [v]).by == AD


def test_it_is_noticed_after_a_direction_along_which_nothing_changes():
    policy, rollouts = tiny(lora=True), random_rollouts()
    bend(policy)
    v = direction(policy)
    still = calculus.scale(v, 0.0)
    passes.jvp(policy, rollouts, [still])
    assert passes.jvp(policy, rollouts, [v]).by == AD


def test_the_zero_direction_has_zero_derivatives():
    policy, rollouts = tiny(lora=True), random_rollouts()
    (found,) = passes.jvp(policy, rollouts, [direction(policy, scale=0.0)]).tangents
    assert not found.dS.any()
    assert not found.dH.any()


@pytest.mark.parametrize("lora", [True, False])
def test_model_and_gradients_are_as_they_were(lora):
    policy, rollouts = tiny(lora), random_rollouts()
    flags = {n: p.requires_grad for n, p in policy.model.named_parameters()}
    implementation = policy.base.config._attn_implementation
    before = passes.forward(policy, rollouts)
    passes.jvp(policy, rollouts, [direction(policy)])
    np.testing.assert_array_equal(passes.forward(policy, rollouts).S, before.S)
    assert policy.base.config._attn_implementation == implementation
    for name, p in policy.model.named_parameters():
        assert p.grad is None
        assert p.requires_grad == flags[name]


# What a caller may get wrong.


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_an_unknown_name_is_refused_and_named(lora, whole):
    policy = tiny(lora)
    v = (direction(policy) if whole else {}) | {"nowhere.weight": torch.ones(3)}
    with pytest.raises(MissingKey, match=r"nowhere\.weight"):
        passes.jvp(policy, random_rollouts(), [v])


def test_a_frozen_parameter_is_refused_and_named():
    policy = tiny(lora=True)
    v = {"base_model.model.model.norm.weight": torch.ones(128, dtype=torch.float64)}
    with pytest.raises(MissingKey, match=r"model\.norm\.weight"):
        passes.jvp(policy, random_rollouts(), [v])


def test_no_direction_is_refused_or_gives_no_tangents():
    for lora in (True, False):
        policy, rollouts = tiny(lora), random_rollouts()
        try:
            found = passes.jvp(policy, rollouts, [])
        except EntrometerError:
            continue
        assert found.tangents == []
        assert relative(found.tables.S, passes.forward(policy, rollouts).S) < 1e-13


@pytest.mark.parametrize("lora", [True, False])
def test_directions_may_name_different_parameters(lora):
    policy, rollouts = tiny(lora), random_rollouts()
    v = direction(policy)
    names = list(v)
    parts = [{n: v[n] for n in names[:6]}, {n: v[n] for n in names[6:]}]
    first, second = passes.jvp(policy, rollouts, parts).tangents
    (whole,) = passes.jvp(policy, rollouts, [v]).tangents
    assert relative(first.dS + second.dS, whole.dS) < 1e-12


def test_a_direction_on_the_head_alone():
    policy, rollouts = small_policy("llama", lora=False), random_rollouts()
    v = {"lm_head.weight": direction(policy)["lm_head.weight"]}
    (found,) = passes.jvp(policy, rollouts, [v]).tangents
    assert_plain(policy, rollouts, found, v)


def test_a_direction_in_another_precision_is_treated_alike_whenever_it_comes():
    """Converted or refused, but not first the one and then the other."""
    rollouts, outcomes = random_rollouts(), []
    for warm in (False, True):
        policy = tiny(lora=True)
        v = direction(policy)
        if warm:
            passes.jvp(policy, rollouts, [v])
        try:
            rounded = {name: x.float() for name, x in v.items()}
            outcomes.append(passes.jvp(policy, rollouts, [rounded]).by)
        except EntrometerError as error:
            outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1]


def test_an_adapter_on_the_embedding_goes_by_ad():
    model = with_adapter(
        small_model("llama"), target_modules=["q_proj", "embed_tokens"]
    )
    policy, rollouts = as_policy(model), random_rollouts()
    v = direction(policy)
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == AD
    assert_differences(policy, rollouts, found.tangents[0], v)


def test_an_adapter_whose_norm_has_no_derivative_is_refused_or_right():
    """DoRA divides by a norm that it detaches: AD of it is not a derivative."""
    policy = as_policy(with_adapter(small_model("llama"), use_dora=True))
    rollouts = random_rollouts()
    v = direction(policy)
    try:
        (found,) = passes.jvp(policy, rollouts, [v]).tangents
    except EntrometerError:
        return
    assert_differences(policy, rollouts, found, v)


def test_attention_with_sinks_is_refused_or_right():
    """The pass may exchange the attention, but not for one that drops a term."""
    model = small_model(
        "gpt_oss",
        num_local_experts=4,
        num_experts_per_tok=2,
        experts_implementation="eager",
    )
    policy, rollouts = as_policy(model, "float32"), random_rollouts()
    try:
        found = passes.jvp(policy, rollouts, [direction(policy)])
    except (EntrometerError, NotImplementedError):
        return
    assert relative(found.tables.S, passes.forward(policy, rollouts).S) < 1e-5


def test_no_logits_of_more_tokens_than_a_chunk_are_made(monkeypatch):
    """Neither by rules nor by AD, whose tangents would double them."""
    seen = set()

    class ShapeSpy(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.shape[-1:] == (101,):
                    seen.add(tuple(leaf.shape[:-1]))
            return result

    monkeypatch.setattr(
        passes.VocabularyHead,
        "_chunks",
        lambda self, N, copies=1: (slice(i, i + 1) for i in range(N)),
    )
    for lora in (True, False):
        policy, rollouts = small_policy("gemma2", lora=lora), random_rollouts()
        v = direction(policy)
        with ShapeSpy():
            passes.jvp(policy, rollouts, [v])
            passes.jvp2(policy, rollouts, v)
    # One token's, and the transposed weight of 64 features.
    assert seen == {(1,), (64,)}


def test_a_model_is_checked_once():
    policy, rollouts = tiny(lora=True), random_rollouts()
    v = direction(policy)
    passes.jvp(policy, rollouts, [v])
    calls = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, *_: calls.append(module) if module is policy.body else None
    )
    try:
        passes.jvp(policy, rollouts, [v])
    finally:
        handle.remove()
    assert len(calls) == 1
