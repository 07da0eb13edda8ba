"""What a real vLLM server returns is what the model's plain softmax would draw."""

# Axes: K tokens of a response, V vocabulary.

import json
import os
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from entrometer.policy.vllm_server import VllmServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        "VLLM_VENV" not in os.environ, reason="tests/vllm/run.sh installs vLLM"
    ),
]

TEMPERATURE = 1.3
MAX_TOKENS = 24


@pytest.fixture(scope="module")
def model(model_directory):
    return AutoModelForCausalLM.from_pretrained(
        model_directory, dtype=torch.float32, trust_remote_code=False
    ).eval()


@pytest.fixture(scope="module")
def tokenizer(model_directory):
    return AutoTokenizer.from_pretrained(model_directory, trust_remote_code=False)


@pytest.fixture(scope="module")
def prompts(tokenizer):
    texts = ("2+2=", "what is 3 times 7?", "a", "(1+2)*3=")
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


@pytest.fixture(scope="module")
def rollouts(server, prompts):
    return VllmServer(url=server).sample(
        prompts,
        model="served",
        prompt_ids=range(len(prompts)),
        responses_per_prompt=8,
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
        seed=0,
    )


def logits(model, prompt, response) -> torch.Tensor:
    """Logits before each response token, (K, V), by one forward pass."""
    ids = torch.tensor([[*prompt, *response]])
    with torch.no_grad():
        return model(input_ids=ids).logits[0, len(prompt) - 1 : -1].double()


def test_responses_are_whole(rollouts, model, tokenizer):
    assert rollouts.count == 32
    assert rollouts.sampler.version == "0.31.0"
    for response in rollouts.response_tokens:
        assert response.min() >= 0
        assert response.max() < model.config.vocab_size
        assert tokenizer.eos_token_id not in response[:-1]
        ended = response[-1] == tokenizer.eos_token_id
        assert ended or response.size == MAX_TOKENS


def surprisals(log_KV, seen_KV):
    return -log_KV


def repeats(log_KV, seen_KV):
    return seen_KV.double()


@pytest.mark.parametrize("statistic", [surprisals, repeats])
def test_distribution_is_the_plain_softmax_at_the_temperature(
    rollouts, model, statistic
):
    """A statistic of the token drawn, less its mean at the prefix, sums to about 0.

    Mean and variance are known at every prefix, so the sum has a standard normal
    score. The served generation config asks for another temperature, top-k, top-p and
    min-p, which surprisals would show, and a penalty, which repeats would.
    """
    excess, variance = 0.0, 0.0
    for prompt, response in zip(
        rollouts.prompt_tokens, rollouts.response_tokens, strict=True
    ):
        log_KV = (logits(model, prompt, response) / TEMPERATURE).log_softmax(dim=-1)
        seen_KV = torch.zeros(log_KV.shape, dtype=torch.bool)
        for k in range(response.size):
            seen_KV[k, torch.from_numpy(np.append(prompt, response[:k]))] = True
        f_KV, p_KV = statistic(log_KV, seen_KV), log_KV.exp()
        drawn_K = f_KV.gather(1, torch.from_numpy(response)[:, None])[:, 0]
        mean_K = (p_KV * f_KV).sum(dim=-1)
        excess += float((drawn_K - mean_K).sum())
        variance += float(((p_KV * f_KV**2).sum(dim=-1) - mean_K**2).sum())
    score = excess / np.sqrt(variance)
    print(f"score {score:.2f} over {rollouts.tokens} tokens")
    assert abs(score) < 4


def test_reported_logprobs_agree_with_a_forward_pass(server, model, prompts):
    largest = 0.0
    for prompt in prompts:
        body = {"model": "served", "prompt": prompt, "max_tokens": MAX_TOKENS}
        body |= {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
        body |= {"repetition_penalty": 1.0, "seed": 1, "logprobs": 0}
        body |= {"return_token_ids": True}
        request = Request(
            f"{server}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=120) as answer:
            choice = json.load(answer)["choices"][0]
        response = torch.tensor(choice["token_ids"])
        log_KV = logits(model, prompt, response.tolist()).log_softmax(dim=-1)
        ours = log_KV.gather(1, response[:, None])[:, 0]
        theirs = torch.tensor(choice["logprobs"]["token_logprobs"], dtype=torch.float64)
        largest = max(largest, float((ours - theirs).abs().max()))
    print(f"largest difference {largest:.1e}")
    assert largest < 1e-3


def test_seed_decides_the_response(server, prompts, rollouts):
    again = VllmServer(url=server).sample(
        prompts[:1],
        model="served",
        prompt_ids=[0],
        responses_per_prompt=8,
        temperature=TEMPERATURE,
        max_tokens=MAX_TOKENS,
        seed=0,
    )
    for first, second in zip(
        rollouts.response_tokens[:8], again.response_tokens, strict=True
    ):
        np.testing.assert_array_equal(first, second)
    assert len({tuple(tokens) for tokens in again.response_tokens}) > 1


def test_listed_eos_ends_a_response(server, prompts, rollouts, tokenizer):
    """A token named in `eos` is counted, and nothing follows it."""
    counts = np.bincount(np.concatenate(rollouts.response_tokens))
    counts[tokenizer.eos_token_id] = 0
    common = int(counts.argmax())
    stopped = VllmServer(url=server).sample(
        prompts[:1],
        model="served",
        prompt_ids=[0],
        responses_per_prompt=16,
        max_tokens=MAX_TOKENS,
        seed=3,
        eos=[common],
    )
    assert any(tokens[-1] == common for tokens in stopped.response_tokens)
    assert all(common not in tokens[:-1] for tokens in stopped.response_tokens)
