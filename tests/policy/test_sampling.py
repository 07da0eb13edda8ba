"""Sampling draws from the plain softmax, and the same response in any company."""

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from scipy.stats import chisquare
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from entrometer.errors import InvalidValue
from entrometer.passes import forward
from entrometer.policy.policy import Policy
from entrometer.policy.precision import Precision
from entrometer.policy.sampling import _draw, eos_tokens, sample
from entrometer.policy.tiny import EOS, tiny_policy, tiny_tokenizer
from entrometer.runs import response_seeds

VOCABULARY = 64
PROMPTS = [[1, 20, 21], [1, 33], [1, 20, 21, 22, 40, 41, 42, 43], [1, 5, 60, 12, 9]]
WINDOW = {"sliding_window": 5}
MIXED = WINDOW | {"layer_types": ["sliding_attention", "full_attention"]}


def small_policy(architecture: str = "llama", **settings) -> Policy:
    """An untrained model with sharp enough logits that every draw tells."""
    config = AutoConfig.for_model(
        architecture,
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=EOS,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
        for p in model.parameters():
            p.data.add_(0.3 * torch.randn_like(p))
    return Policy(model, tiny_tokenizer(length=64), Precision.FLOAT32, "small")


def next_probabilities(policy: Policy, tokens, temperature: float) -> np.ndarray:
    """The distribution after these tokens: alone, unpadded, without a cache."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([list(tokens)])).logits[0, -1]
    return (logits.double() / temperature).softmax(dim=0).numpy()


def slow_response(policy, prompt, seed, *, temperature, max_tokens) -> list[int]:
    """One response by the definition: halve the vocabulary with the seed's numbers."""
    stream = np.random.default_rng(seed)
    response: list[int] = []
    ends = set(eos_tokens(policy))
    while len(response) < max_tokens and not ends & set(response):
        mass = next_probabilities(policy, [*prompt, *response], temperature)
        token = 0
        for d, u in enumerate(stream.random((mass.size - 1).bit_length())):
            left, right = (mass[n :: 2 ** (d + 1)].sum() for n in (token, token + 2**d))
            if u * (left + right) >= left:
                token += 2**d
        response.append(token)
    return response


def tokens_of(rollouts) -> list[list[int]]:
    return [tokens.tolist() for tokens in rollouts.response_tokens]


@pytest.fixture(scope="module")
def tiny() -> Policy:
    return tiny_policy(seed=1)


def test_first_token_has_the_plain_softmax(tiny):
    """Chi-square over the whole vocabulary, with a config that would bend the policy.

    A generation config of top-k, top-p, a penalty, a shortest length and another
    temperature stands by; only the temperature that is asked for may count.
    """
    kept = tiny.base.generation_config
    tiny.base.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.3,
        top_k=5,
        top_p=0.5,
        min_p=0.1,
        repetition_penalty=2.0,
        min_new_tokens=8,
        suppress_tokens=[20],
        eos_token_id=EOS,
    )
    n, temperature = 10_000, 1.5
    try:
        rollouts = sample(
            tiny,
            PROMPTS[:1],
            prompt_ids=[0],
            responses_per_prompt=n,
            temperature=temperature,
            max_tokens=1,
            seed=0,
        )
    finally:
        tiny.base.generation_config = kept
    first = np.concatenate(rollouts.response_tokens)
    expected = n * next_probabilities(tiny, PROMPTS[0], temperature)
    assert expected.min() > 5
    drawn = np.bincount(first, minlength=expected.size)
    assert chisquare(drawn, expected).pvalue > 0.01


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("llama", {}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("mistral", WINDOW),
        ("gemma2", MIXED | {"query_pre_attn_scalar": 8}),
        ("gemma3_text", MIXED | {"query_pre_attn_scalar": 8}),
    ],
)
def test_batch_draws_what_each_row_draws_alone(architecture, settings):
    """Padding, positions, cache, sliding windows and finished rows leave no trace."""
    policy = small_policy(architecture, **settings)
    # A third of the vocabulary, so that rows end at many lengths.
    policy.base.generation_config.eos_token_id = list(range(EOS, VOCABULARY, 3))
    rollouts = sample(
        policy,
        PROMPTS,
        prompt_ids=[3, 1, 4, 5],
        responses_per_prompt=3,
        temperature=0.9,
        max_tokens=12,
        seed=7,
    )
    alone = [
        slow_response(policy, prompt, seed, temperature=0.9, max_tokens=12)
        for prompt, seed in zip(rollouts.prompt_tokens, rollouts.seed, strict=True)
    ]
    assert tokens_of(rollouts) == alone
    assert len(set(map(len, alone))) > 1


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("lora_rank", [None, 2])
def test_measured_policy_draws_what_each_row_draws_alone(precision, lora_rank):
    """The attention and norms that derivatives need know padding and cache as well."""
    policy = tiny_policy(precision=precision, lora_rank=lora_rank, lora_std=0.1)
    rollouts = sample(policy, PROMPTS, prompt_ids=range(4), max_tokens=12, seed=7)
    alone = [
        slow_response(policy, prompt, seed, temperature=1.0, max_tokens=12)
        for prompt, seed in zip(rollouts.prompt_tokens, rollouts.seed, strict=True)
    ]
    assert tokens_of(rollouts) == alone


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_kept_log_probs_are_those_that_the_sampling_computed(precision):
    """In float64 those of a pass; in bfloat16 not, which is what they are kept for."""
    policy = tiny_policy(precision=precision)
    settings = {"prompt_ids": range(4), "temperature": 0.7, "max_tokens": 12, "seed": 7}
    rollouts = sample(policy, PROMPTS, keep_logprobs=True, **settings)
    assert tokens_of(rollouts) == tokens_of(sample(policy, PROMPTS, **settings))
    kept = np.concatenate(rollouts.engine_logprobs)
    exact = forward(tiny_policy(precision="float64"), rollouts).S
    apart = np.abs(kept - exact).max()
    assert apart < 1e-12 if precision == "float64" else 1e-4 < apart < 0.1
    assert sample(policy, PROMPTS, **settings).engine_logprobs is None


def test_rows_are_in_order_and_say_where_they_come_from(tiny):
    rollouts = sample(
        tiny,
        PROMPTS,
        prompt_ids=[3, 1, 4, 5],
        responses_per_prompt=2,
        max_tokens=4,
        seed=7,
    )
    np.testing.assert_array_equal(rollouts.prompt, [3, 3, 1, 1, 4, 4, 5, 5])
    assert [t.tolist() for t in rollouts.prompt_tokens[::2]] == PROMPTS
    np.testing.assert_array_equal(rollouts.seed, response_seeds(7, [3, 1, 4, 5], 2))
    assert np.isnan(rollouts.reward).all()
    assert rollouts.sampler.name == "transformers"
    assert rollouts.sampler.model == "tiny, seed 1"
    assert (rollouts.sampler.top_k, rollouts.sampler.top_p) == (0, 1.0)
    decoded = tiny.tokenizer.decode(
        rollouts.response_tokens[0], skip_special_tokens=True
    )
    assert rollouts.text[0] == decoded


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_batches_do_not_change_a_response(tiny, batch_tokens):
    settings = {"responses_per_prompt": 2, "max_tokens": 10}
    ids = [3, 1, 4, 5]
    whole = sample(tiny, PROMPTS, prompt_ids=ids, seed=7, **settings)
    cut = sample(
        tiny, PROMPTS, prompt_ids=ids, seed=7, batch_tokens=batch_tokens, **settings
    )
    assert tokens_of(cut) == tokens_of(whole)


def test_part_of_a_batch_draws_its_own_rows(tiny):
    """Seeds of the whole, sliced: repeated prompts are safe on another machine."""
    ids = [3, 1, 3, 3]
    prompts = [PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[0]]
    whole = sample(tiny, prompts, prompt_ids=ids, max_tokens=10, seed=7)
    part = sample(
        tiny,
        prompts[2:],
        prompt_ids=ids[2:],
        max_tokens=10,
        seed=response_seeds(7, ids)[2:],
    )
    assert tokens_of(part) == tokens_of(whole)[2:]
    assert len({tuple(t) for t in tokens_of(whole)}) == 4


def test_longer_limit_continues_a_response(tiny):
    short, long = (
        tokens_of(sample(tiny, PROMPTS, prompt_ids=range(4), max_tokens=n, seed=7))
        for n in (4, 9)
    )
    assert [tokens[:4] for tokens in long] == short


def test_response_ends_with_its_first_eos(tiny):
    rollouts = sample(
        tiny,
        PROMPTS,
        prompt_ids=range(4),
        responses_per_prompt=40,
        max_tokens=30,
        seed=0,
    )
    ended = [tokens[-1] == EOS for tokens in rollouts.response_tokens]
    assert all(EOS not in tokens[:-1] for tokens in rollouts.response_tokens)
    assert all(ended | (rollouts.length == 30))
    assert 0 < sum(ended) < rollouts.count


def test_every_eos_of_the_generation_config_ends_a_response():
    policy = small_policy()
    policy.base.generation_config.eos_token_id = [20, 21]
    assert eos_tokens(policy) == (EOS, 20, 21)
    rollouts = sample(
        policy,
        PROMPTS,
        prompt_ids=range(4),
        responses_per_prompt=60,
        max_tokens=9,
        seed=0,
    )
    last = {int(t[-1]) for t in rollouts.response_tokens if t.size < 9}
    assert last == {EOS, 20, 21}
    assert not any(np.isin([20, 21], t[:-1]).any() for t in rollouts.response_tokens)


def test_model_without_eos_goes_to_the_limit():
    policy = small_policy()
    policy.base.generation_config.eos_token_id = None
    policy.tokenizer.eos_token = None
    rollouts = sample(policy, PROMPTS, prompt_ids=range(4), max_tokens=20, seed=0)
    np.testing.assert_array_equal(rollouts.length, [20] * 4)


def test_adapter_is_part_of_the_policy():
    policy = small_policy()
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = get_peft_model(policy.model, config).eval()
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.data.normal_()
    adapted = Policy(model, policy.tokenizer, policy.precision, "adapted")
    rollouts = sample(adapted, PROMPTS, prompt_ids=range(4), max_tokens=8, seed=0)
    alone = [
        slow_response(adapted, prompt, seed, temperature=1.0, max_tokens=8)
        for prompt, seed in zip(rollouts.prompt_tokens, rollouts.seed, strict=True)
    ]
    assert tokens_of(rollouts) == alone
    with model.disable_adapter():
        bare = sample(adapted, PROMPTS, prompt_ids=range(4), max_tokens=8, seed=0)
    assert tokens_of(bare) != alone


def test_global_generators_are_not_moved(tiny):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    sample(tiny, PROMPTS, prompt_ids=range(4), max_tokens=3, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_draw_stays_inside_the_vocabulary_at_the_ends_of_u():
    """Neither the padding to a power of two nor a token of no mass is ever drawn."""
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf, 0.5, -torch.inf]])
    for u, token in ((0.0, 4), (1 - 2**-53, 1)):
        drawn, _ = _draw(logits, 1.0, torch.full((1, 3), u, dtype=torch.float64))
        assert drawn.tolist() == [token]


def test_draw_knows_probabilities_below_float32():
    """A token of probability 1e-12 is drawn below that number, and not above it."""
    logits = torch.tensor([[0.0, np.log(1e-12)]])
    for u, token in ((1 - 2e-12, 0), (1 - 5e-13, 1)):
        drawn, S = _draw(logits, 1.0, torch.tensor([[u]], dtype=torch.float64))
        assert drawn.tolist() == [token]
        expected = logits[0].double().log_softmax(0)[token]
        assert S.item() == pytest.approx(expected.item(), rel=1e-12)


def test_broken_logits_are_refused():
    with pytest.raises(InvalidValue, match="finite logits"):
        _draw(torch.tensor([[0.0, torch.nan]]), 1.0, torch.zeros(1, 1).double())


def test_training_mode_is_refused():
    policy = small_policy()
    policy.model.train()
    with pytest.raises(InvalidValue, match=r"model\.eval\(\)"):
        sample(policy, PROMPTS, prompt_ids=range(4), max_tokens=3, seed=0)


@pytest.mark.parametrize("prompt", [[], [VOCABULARY], [-1]])
def test_tokens_of_another_model_are_refused(prompt):
    with pytest.raises(InvalidValue, match=r"prompt 1.*tokenizer of this model"):
        sample(small_policy(), [[1], prompt], prompt_ids=[0, 1], max_tokens=3, seed=0)


def test_more_tokens_than_positions_are_refused():
    policy = small_policy()
    assert sample(policy, [[1] * 60], prompt_ids=[0], max_tokens=4, seed=0).count == 1
    with pytest.raises(InvalidValue, match="lower max_tokens"):
        sample(policy, [[1] * 60], prompt_ids=[0], max_tokens=5, seed=0)
