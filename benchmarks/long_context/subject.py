"""A small model with an adapter, and one long response of random tokens."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.random_tokens import as_rollouts
from entrometer.policy.adapter import add_adapter
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.runs import Rollouts

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
    prompt, response = (rng.integers(3, VOCABULARY, n) for n in (8, T - 8))
    return as_rollouts([prompt], [response])
