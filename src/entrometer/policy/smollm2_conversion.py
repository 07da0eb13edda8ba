"""From the quantised file of SmolLM2-135M-Instruct to an ordinary model directory."""

from pathlib import Path
from shutil import copymode
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

BEGIN, END = "<|im_start|>", "<|im_end|>"

# The file names the end token here. A token that ends answers and fills gaps is lost
# wherever gaps are masked by id, so the gaps get the token that parted documents.
PAD = "<|endoftext|>"


def convert(gguf: Path, directory: Path) -> None:
    """Write the model in `gguf` as float32 safetensors, with tokenizer and settings."""
    tokenizer = _tokenizer(gguf)
    pad, begin, end = tokenizer.convert_tokens_to_ids([PAD, BEGIN, END])
    model: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
    )
    # Left in, the config would claim that the saved float32 weights are quantised.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    # The file keeps 1e-5 in float32 and the name of a training run.
    model.config.rms_norm_eps = 1e-5
    del model.config._model_name_or_path
    model.config.pad_token_id = pad
    model.generation_config = GenerationConfig(
        bos_token_id=begin, eos_token_id=end, pad_token_id=pad
    )
    model.save_pretrained(directory)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(directory)
    # Written for the owner alone, which a cache that others share cannot use.
    copymode(directory / "config.json", directory / "model.safetensors")


def _tokenizer(gguf: Path) -> Any:
    tokenizer: Any = AutoTokenizer.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        padding_side="left",
        local_files_only=True,
        trust_remote_code=False,
    )
    tokenizer.pad_token = PAD
    # The file asks for the splitting "smollm", every digit apart and then the rules of
    # GPT-2; transformers reads it as GPT-2 alone, and two spaces before a number would
    # become tokens that the model never saw there.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer
