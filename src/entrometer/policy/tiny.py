"""A policy of a million parameters, made from a seed in a second."""

from math import sqrt
from pathlib import Path

import torch
from torch import Generator, nn
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from entrometer.policy.fresh_adapter import put_fresh_adapter
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.policy.readiness import as_precision, ready
from entrometer.policy.tiny_tokenizer import BOS, EOS, PAD, VOCABULARY, tiny_tokenizer

NAME = "tiny"
LENGTH = 1024


def tiny_policy(
    seed: int = 0,
    *,
    precision: Precision | str = Precision.FLOAT32,
    lora_rank: int | None = None,
    lora_std: float = 0.0,
) -> Policy:
    r"""Untrained Qwen2 of 998,912 parameters, with what larger models have.

    Grouped-query attention, biases, rotary positions and a head tied to the embedding
    are all there. Weights are drawn from the seed alone; the global generator is
    neither read nor moved. Gains and biases are drawn too: at their usual 1 and 0, a
    derivative that forgot them would pass.

    Args:
        seed: Seed of the weights.
        precision: What it computes in. Weights are drawn in float32, then rounded.
        lora_rank: Rank of an adapter on every linear layer but the head, which alone
            is then trained; None trains the whole model.
        lora_std: Standard deviation of the adapter's $B$. A trainer starts at 0, where
            $\partial(BA)/\partial A = 0$: half of the gradients vanish, and with them
            whatever a test would show.
    """
    generator = torch.Generator().manual_seed(seed)
    model: nn.Module = _drawn_model(generator)
    if lora_rank is not None:
        model = put_fresh_adapter(
            model, rank=lora_rank, std=lora_std, generator=generator
        )
    precision = as_precision(precision)
    return Policy(
        model=ready(model, precision),
        tokenizer=tiny_tokenizer(length=LENGTH),
        precision=precision,
        source=NAME if seed == 0 else f"{NAME}, seed {seed}",
    )


def save_tiny(directory: Path | str, *, seed: int = 0) -> Path:
    """Write the tiny policy as the model directory that any tool reads.

    `load_policy` gives back the same weights, to the bit.
    """
    directory = Path(directory)
    policy = tiny_policy(seed)
    assert isinstance(policy.model, Qwen2ForCausalLM)
    policy.model.save_pretrained(directory)
    policy.tokenizer.save_pretrained(directory)
    return directory


def _drawn_model(generator: Generator) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    with torch.random.fork_rng(devices=[]):
        model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS
    )
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.normal_(1.0, 0.1, generator=generator)
            elif "embed" in name:
                # Logits then spread by about one nat: neither uniform nor certain.
                p.normal_(0.0, 0.1, generator=generator)
            else:
                p.normal_(0.0, 1 / sqrt(p.shape[-1]), generator=generator)
    return model
