"""Untrained models of each architecture, two layers each, by transformers' names."""

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 101
WINDOW = 6
"""Shorter than the sequences, so that it hides something."""

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MIXED = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"],
}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_GROUPED = _EXPERTS | {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
}
_LATENT = {
    "kv_lora_rank": 12,
    "q_lora_rank": 20,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "num_key_value_heads": 4,
    "head_dim": 8,
}
_CHANNELS = {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16}

WITH_RULES: dict[str, dict[str, Any]] = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "mistral": {"sliding_window": WINDOW},
    "gemma": {},
    # Caps low enough to bend the logits of a small model.
    "gemma2": _MIXED
    | {
        "query_pre_attn_scalar": 12,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.0,
    },
    "gemma3_text": _MIXED | {"query_pre_attn_scalar": 12},
    "phi3": {"partial_rotary_factor": 0.5},
    "olmo2": {},
    "glm4": {"partial_rotary_factor": 0.5, "attention_bias": True},
    "granite": {
        "logits_scaling": 2.0,
        "attention_multiplier": 0.3,
        "embedding_multiplier": 2.0,
        "residual_multiplier": 0.5,
    },
    "smollm3": {"no_rope_layers": [1, 0]},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3_moe": _EXPERTS | {"num_experts": 8, "norm_topk_prob": True},
    "glm4_moe": _GROUPED | {"use_qk_norm": True, "partial_rotary_factor": 0.5},
    "deepseek_v3": _GROUPED | _LATENT,
    "gpt_oss": _MIXED | {"num_local_experts": 8, "num_experts_per_tok": 2},
}
"""Architectures with tangent rules and true float64."""

BY_FORWARD_MODE: dict[str, dict[str, Any]] = {
    "qwen3_next": _EXPERTS
    | {
        "num_experts": 8,
        "shared_expert_intermediate_size": 24,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
        "partial_rotary_factor": 0.5,
    },
    "mamba2": {
        "state_size": 8,
        "num_heads": 8,
        "head_dim": 16,
        "n_groups": 2,
        "expand": 2,
        "chunk_size": 8,
    },
    "falcon_h1": _CHANNELS
    | {
        "mamba_n_groups": 1,
        "mamba_d_state": 8,
        "mamba_chunk_size": 8,
        "lm_head_multiplier": 0.5,
        "embedding_multiplier": 2.0,
    },
}
"""Architectures without rules: float32, and forward-mode AD."""

_NOT_OF_MAMBA = {
    *("intermediate_size", "num_attention_heads", "num_key_value_heads"),
    "max_position_embeddings",
}


def small_model(architecture: str, *, seed: int = 0, **settings: Any) -> nn.Module:
    """Return a model in float32, no gain, bias or weight of it at its usual value."""
    own = (WITH_RULES | BY_FORWARD_MODE).get(architecture, {})
    sizes: dict[str, Any] = dict(_SIZES)
    if architecture == "mamba2":
        sizes = {n: x for n, x in sizes.items() if n not in _NOT_OF_MAMBA}
    config = AutoConfig.for_model(architecture, **(sizes | own | settings))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model: nn.Module = AutoModelForCausalLM.from_config(config).eval()
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model
