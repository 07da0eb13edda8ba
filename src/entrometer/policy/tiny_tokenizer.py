"""The tokenizer of the tiny policy: one token a character, made in code."""

from string import ascii_letters, digits, punctuation

from tokenizers import AddedToken
from transformers import Qwen2Tokenizer

# Ids follow this order, so a new token goes last: a saved model keeps its meaning.
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<system>", "<user>", "<assistant>")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
CHARACTERS = digits + "+-*/=() \n" + ascii_letters + punctuation

PAD, BOS, EOS = range(3)

# The byte-level alphabet of GPT-2 writes the two blanks so; the rest as they are.
_BLANKS = str.maketrans({" ": "Ġ", "\n": "Ċ"})

_TOKENS = dict.fromkeys((*SPECIAL, *TAGS, *CHARACTERS.translate(_BLANKS)))
VOCABULARY = len(_TOKENS)

# An answer ends with <eos>; what others say ends with a line break.
CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<' + message.role + '>' + message.content }}"
    "{{- eos_token if message.role == 'assistant' else '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}"
)


def tiny_tokenizer(*, length: int) -> Qwen2Tokenizer:
    """Tokenizer of characters, of the tags of a reasoned answer, and of roles.

    It is Qwen2's with no merges, because that is the class in which transformers opens
    the tokenizer of any Qwen2 model, whatever was saved. Tags survive a decoding that
    skips special tokens, for verifiers to find. What is not ASCII is dropped.

    Args:
        length: Tokens that the model has positions for.
    """
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
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return tokenizer
