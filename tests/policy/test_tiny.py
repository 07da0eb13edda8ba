"""The tiny policy: the same everywhere, and nothing in it at 0 or 1 by chance."""

import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.policy.loading import load_policy
from entrometer.policy.precision import float64_only
from entrometer.policy.tiny import save_tiny, tiny_policy

TEXT = "<think>is 12+3=15?</think>\n<answer>15</answer>"


def tokens_of(policy, text=TEXT):
    return policy.tokenizer(text, return_tensors="pt").input_ids


def test_it_has_about_a_million_parameters():
    parameters = tiny_policy().trained()
    assert sum(p.numel() for p in parameters.values()) == 998_912


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    a, b, other = tiny_policy(3), tiny_policy(3), tiny_policy(4)
    assert torch.equal(torch.get_rng_state(), before)
    for name, p in a.trained().items():
        assert torch.equal(p, b.trained()[name])
        assert not torch.equal(p, other.trained()[name])


def test_an_adapter_does_not_change_the_seeds_weights_or_the_global_generator():
    before = torch.get_rng_state()
    adapted = tiny_policy(3, lora_rank=2).base.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    for name, p in tiny_policy(3).trained().items():
        layer, _, kind = name.rpartition(".")
        wrapped = f"{layer}.base_layer.{kind}"
        assert torch.equal(p, adapted[wrapped if wrapped in adapted else name])


def test_no_gain_or_bias_is_at_its_usual_value():
    for name, p in tiny_policy().trained().items():
        assert not (p == 0).any(), name
        assert not (p == 1).any(), name


def test_its_entropy_is_neither_that_of_chance_nor_nothing():
    policy = tiny_policy()
    with torch.no_grad():
        logp_BTV = policy.model(tokens_of(policy)).logits.log_softmax(dim=-1)
    H_BT = -(logp_BTV.exp() * logp_BTV).sum(dim=-1)
    assert 3.5 < H_BT.min() < H_BT.max() < 4.5


@pytest.mark.parametrize(
    ("std", "moved"), [(0.0, {"lora_B"}), (0.02, {"lora_A", "lora_B"})]
)
def test_only_a_nonzero_b_gives_every_adapter_weight_a_gradient(std, moved):
    policy = tiny_policy(lora_rank=4, lora_std=std)
    tokens = tokens_of(policy)
    policy.model(tokens, labels=tokens).loss.backward()
    trained = [(n, p) for n, p in policy.model.named_parameters() if p.requires_grad]
    # Seven linear layers in each of four blocks, two factors each.
    assert len(trained) == 4 * 7 * 2
    for name, p in trained:
        assert p.grad.any() == any(kind in name for kind in moved), name


@pytest.mark.parametrize(
    "wrong", [{"lora_rank": 0}, {"lora_rank": 2, "lora_std": -1.0}]
)
def test_an_impossible_adapter_is_refused(wrong):
    with pytest.raises(InvalidValue, match="expected LoRA rank >= 1"):
        tiny_policy(**wrong)


def test_what_is_saved_is_loaded_to_the_bit(tmp_path):
    made, loaded = tiny_policy(5), load_policy(save_tiny(tmp_path / "tiny", seed=5))
    assert list(made.trained()) == list(loaded.trained())
    for name, p in made.trained().items():
        assert torch.equal(p, loaded.trained()[name])
    tokens = tokens_of(made)
    assert torch.equal(tokens, tokens_of(loaded))
    assert torch.equal(made.model(tokens).logits, loaded.model(tokens).logits)
    assert loaded.base.generation_config.to_diff_dict() == (
        made.base.generation_config.to_diff_dict()
    )


def test_bfloat16_is_what_loading_in_bfloat16_gives(tiny_directory):
    made = tiny_policy(precision="bfloat16")
    loaded = load_policy(tiny_directory, precision="bfloat16")
    tokens = tokens_of(made)
    assert made.model(tokens).logits.dtype is torch.bfloat16
    assert torch.equal(made.model(tokens).logits, loaded.model(tokens).logits)
    for policy in (made, loaded):
        assert {p.dtype for p in policy.model.parameters()} == {torch.bfloat16}
        # Rounded frequencies would turn late positions by whole radians.
        assert {b.dtype for b in policy.model.buffers()} == {torch.float32}


@pytest.mark.parametrize("rank", [None, 2])
def test_float64_widens_the_drawn_weights(rank):
    single = tiny_policy(lora_rank=rank, lora_std=0.1)
    double = tiny_policy(precision="float64", lora_rank=rank, lora_std=0.1)
    for name, p in single.trained().items():
        assert torch.equal(double.trained()[name], p.double())
    with torch.no_grad(), float64_only():
        double.model(tokens_of(double))


def test_characters_and_tags_are_single_tokens_and_survive():
    tokenizer = tiny_policy().tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer("12+<think>").input_ids) == [
        *("1", "2", "+", "<think>"),
    ]
    ids = tokenizer(TEXT + "<eos><pad>").input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == TEXT
    assert tokenizer.decode(tokenizer(" 1 , 2 .\n").input_ids) == " 1 , 2 .\n"


def test_ascii_comes_back_and_the_rest_is_dropped():
    tokenizer = tiny_policy().tokenizer
    ascii_text = "".join(map(chr, range(32, 127))) + "\n\n  A 12  3\n"
    ids = tokenizer(ascii_text + "é").input_ids
    assert len(ids) == len(ascii_text)
    assert tokenizer.decode(ids) == ascii_text


def test_its_chat_ends_an_answer_with_the_end_token():
    tokenizer = tiny_policy().tokenizer
    chat = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "1+1?"},
    ]
    text = tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=True
    )
    assert text == "<bos><system>be brief\n<user>1+1?\n<assistant>"
    chat.append({"role": "assistant", "content": "2"})
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    assert text == "<bos><system>be brief\n<user>1+1?\n<assistant>2<eos>"


def test_the_end_token_is_not_the_padding():
    policy = tiny_policy()
    tokenizer, config = policy.tokenizer, policy.base.generation_config
    ids = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert ids == (0, 1, 2)
    assert ids == (config.pad_token_id, config.bos_token_id, config.eos_token_id)
    assert len(tokenizer) == policy.base.config.vocab_size == 107
