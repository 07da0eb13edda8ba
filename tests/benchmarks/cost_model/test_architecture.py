"""Sizes by formula are those of the models themselves."""

from itertools import count

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from benchmarks.architectures.families import VOCABULARY, small_model
from benchmarks.cost_model.flops import decoder, here
from benchmarks.cost_model.flops.here import architecture_of
from entrometer.policy import tiny_policy
from tests.policy.small_models import as_policy, small_policy, with_adapter


@pytest.mark.parametrize("rank", [None, 4])
def test_the_formula_counts_what_a_loaded_policy_has(rank):
    loaded = architecture_of(tiny_policy(lora_rank=rank))
    told = decoder(
        layers=4,
        width=128,
        heads=4,
        kv_heads=2,
        feed_forward=512,
        vocabulary=loaded.vocabulary,
        tied=True,
        biased=True,
        rank=rank,
    )
    assert told == loaded


@pytest.mark.parametrize(
    ("config", "model", "biased"),
    [(LlamaConfig, LlamaForCausalLM, False), (Qwen2Config, Qwen2ForCausalLM, True)],
)
def test_the_formula_counts_every_weight_of_models_with_a_head_apart(
    config, model, biased
):
    sizes = config(
        num_hidden_layers=3,
        hidden_size=96,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=160,
        vocab_size=70,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        own = sum(p.numel() for p in model(sizes).parameters())
    told = decoder(
        layers=3,
        width=96,
        heads=6,
        kv_heads=2,
        feed_forward=160,
        vocabulary=70,
        tied=False,
        biased=biased,
    )
    assert told.parameters == told.trained == own


ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


@pytest.mark.parametrize("rank", [None, 3])
def test_the_formula_counts_what_a_loaded_mixture_has(rank):
    model = small_model("qwen3_moe")
    if rank is not None:
        model = with_adapter(model, r=rank, target_modules=list(ATTENTION))
    loaded = architecture_of(as_policy(model, "float32"))
    told = decoder(
        layers=2,
        width=64,
        heads=4,
        kv_heads=2,
        head_width=16,
        normed_heads=True,
        feed_forward=24,
        experts=8,
        chosen=2,
        vocabulary=VOCABULARY,
        tied=False,
        rank=rank,
    )
    assert told == loaded


def test_many_tokens_meet_every_expert_and_one_token_the_chosen():
    shape = architecture_of(small_policy("qwen3_moe", lora=False, precision="float32"))
    others = shape.parameters - shape.expert_weights
    assert shape.met(1) == pytest.approx(others + shape.expert_weights * 2 / 8)
    assert shape.met(1000) == pytest.approx(shape.parameters)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_machine_is_what_a_product_and_a_sum_are_timed_at(precision, monkeypatch):
    """Where a look at the clock is half a second after the last."""
    ticks = count()
    monkeypatch.setattr(here.time, "perf_counter", lambda: 0.5 * next(ticks))
    found = here.measure_machine(tiny_policy(precision=precision))
    size = {"float32": 4, "float64": 8}[precision]
    assert found.flops == 2 * here._SIDE**3 / 0.5
    assert found.bandwidth == 3 * here._ELEMENTS * size / 0.5
