"""A small model with an adapter, and one long response of random tokens."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from entrometer.policy.adapter import add_adapter
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.runs.rollouts import Rollouts, Sampler

VOCABULARY = 256


def model_with_adapter() -> Policy:
    """12 million parameters in the proportions of small models, LoRA of rank 8."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=1 << 14,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).eval()
    policy = Policy(model, None, Precision("float32"), "random")
    return add_adapter(policy, rank=8, std=0.01)


def long_response(T: int) -> Rollouts:
    """One response, T tokens with its prompt."""
    rng = np.random.default_rng(0)
    return Rollouts(
        prompt=np.zeros(1, np.int64),
        prompt_tokens=(rng.integers(3, VOCABULARY, 8),),
        response_tokens=(rng.integers(3, VOCABULARY, T - 8),),
        seed=np.zeros(1, np.int64),
        text=("",),
        reward=np.zeros(1),
        sampler=Sampler(
            name="transformers",
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            max_tokens=T,
            model="random",
            version="0",
        ),
    )
