"""The built-in policy: a million parameters, drawn from a seed in a second."""

from math import sqrt
from pathlib import Path
from string import ascii_letters, digits, punctuation
from typing import Any

import torch
from tokenizers import AddedToken
from torch import Generator, nn
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from entrometer.policy.adapter import put_fresh_adapter
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision, as_precision, ready
from entrometer.policy.sources import TINY

LENGTH = 1024  #: Most tokens of a prompt with its response.

# Ids follow this order, so a new token goes last: a saved model keeps its meaning.
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<system>", "<user>", "<assistant>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
CHARACTERS = digits + "+-*/=() \n" + ascii_letters + punctuation

PAD, BOS, EOS = range(3)

# GPT-2's byte-level alphabet writes ASCII as it is but for the two blanks.
_BLANKS = str.maketrans({" ": "Ġ", "\n": "Ċ"})

_TOKENS = dict.fromkeys((*SPECIAL, *TAGS, *CHARACTERS.translate(_BLANKS)))
VOCABULARY = len(_TOKENS)

# An answer ends with <eos>, the messages of other roles with a line break.
CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<' + message.role + '>' + message.content }}"
    "{{- eos_token if message.role == 'assistant' else '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}"
)


def tiny_policy(
    seed: int = 0,
    *,
    precision: Precision | str = Precision.FLOAT32,
    lora_rank: int | None = None,
    lora_std: float = 0.0,
) -> Policy:
    r"""Return an untrained Qwen2 of 998,912 parameters, drawn from the seed alone.

    It has grouped-query attention, biases, rotary positions and a head tied to the
    embedding. Weights are drawn in float32, then rounded; the global generator is not
    used. With `lora_rank` only an adapter is trained; see `put_fresh_adapter`.
    """
    generator = torch.Generator().manual_seed(seed)
    model: nn.Module = _drawn_model(generator)
    if lora_rank is not None:
        model = put_fresh_adapter(
            model, rank=lora_rank, std=lora_std, generator=generator
        )
    precision = as_precision(precision)
    source = TINY if seed == 0 else f"{TINY}, seed {seed}"
    tokenizer = tiny_tokenizer(length=LENGTH)
    return Policy(ready(model, precision), tokenizer, precision, source)


def save_tiny(directory: Path | str, *, seed: int = 0) -> Path:
    """Write the tiny policy as a model directory; `load_policy` reads it to the bit."""
    policy = tiny_policy(seed)
    assert isinstance(policy.model, Qwen2ForCausalLM)
    policy.model.save_pretrained(directory)
    policy.tokenizer.save_pretrained(directory)
    return Path(directory)


def _drawn_model(generator: Generator) -> Qwen2ForCausalLM:
    special: dict[str, Any] = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        **special,
    )
    with torch.random.fork_rng(devices=[]):
        model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(**special)
    with torch.no_grad():
        for name, p in model.named_parameters():
            # Gains and biases are drawn too: at their usual 1 and 0, a derivative that
            # forgot them would pass its test.
            if "norm" in name:
                p.normal_(1.0, 0.1, generator=generator)
            elif "embed" in name:
                # Logits then spread by about one nat: neither uniform nor certain.
                p.normal_(0.0, 0.1, generator=generator)
            else:
                p.normal_(0.0, 1 / sqrt(p.shape[-1]), generator=generator)
    return model


def tiny_tokenizer(*, length: int) -> Qwen2Tokenizer:
    """Return a tokenizer of ASCII characters, tags of a reasoned answer, and roles."""
    # Qwen2's with no merges: transformers opens the tokenizer of any Qwen2 model in
    # that class, whatever class was saved.
    tokenizer = Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate(_TOKENS)},
        merges=[],
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=["<system>", "<user>", "<assistant>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=length,
        padding_side="left",
    )
    # Added and not special, so that tags survive a decoding that skips special tokens:
    # verifiers look for them.
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return tokenizer
