"""A tool's replies in the middle of a response, in any company."""

from dataclasses import dataclass

import numpy as np
import pytest

from entrometer.policy.sampling import eos_tokens, sample
from entrometer.policy.tiny import EOS, tiny_policy
from entrometer.policy.turns import DECODED
from tests.policy.test_sampling import PROMPTS, next_probabilities, tokens_of

IDS, PER_PROMPT = [3, 1, 4, 5], 12


@dataclass(frozen=True)
class Echo:
    """Says how long the response is, and to which prompt; at times nothing."""

    call_end: str = "a"

    def reply(self, prompt_id: int, text: str) -> str | None:
        return None if len(text) % 5 == 0 else f"({prompt_id}:{len(text)})"


@pytest.fixture(scope="module")
def policy():
    """A tenth of the tokens end a response, so that most have a reply."""
    policy = tiny_policy(seed=1)
    policy.base.generation_config.eos_token_id = list(range(EOS, policy.vocabulary, 10))
    return policy


def drawn(policy, tool, max_tokens=24, **settings):
    return sample(
        policy,
        PROMPTS,
        prompt_ids=IDS,
        responses_per_prompt=PER_PROMPT,
        max_tokens=max_tokens,
        seed=7,
        tool=tool,
        **settings,
    )


def slow_response(policy, prompt, prompt_id, seed, tool, max_tokens):
    """One response by the definition, with whole logits and a number per place."""
    stream, ends = np.random.default_rng(seed), eos_tokens(policy)
    tokens, written, reply = [], [], []
    while len(tokens) < max_tokens:
        numbers = stream.random((policy.vocabulary - 1).bit_length())
        written.append(not reply)
        if reply:
            tokens.append(reply.pop(0))
            continue
        mass, token = next_probabilities(policy, [*prompt, *tokens], 1.0), 0
        for d, u in enumerate(numbers):
            left, right = (mass[n :: 2 ** (d + 1)].sum() for n in (token, token + 2**d))
            if u * (left + right) >= left:
                token += 2**d
        tokens.append(token)
        ended = token in ends
        # The text may be in the middle of a token, as in that of a tag.
        called = tool.call_end in policy.tokenizer.decode([token], **DECODED)
        text = None
        if ended or (called and tool.call_end):
            text = tool.reply(prompt_id, policy.tokenizer.decode(tokens, **DECODED))
        if text is None and ended:
            break
        reply = policy.tokenizer(text or "", add_special_tokens=False)["input_ids"]
        if len(tokens) + len(reply) >= max_tokens:
            break
    return tokens, written


@pytest.mark.parametrize("call_end", ["a", ""])
def test_a_batch_draws_what_each_row_draws_alone(policy, call_end):
    """After a call, and after EOS, where the reply begins another turn."""
    tool = Echo(call_end)
    rollouts = drawn(policy, tool)
    alone = [
        slow_response(policy, prompt.tolist(), int(number), seed, tool, 24)
        for prompt, number, seed in zip(
            rollouts.prompt_tokens, rollouts.prompt, rollouts.seed, strict=True
        )
    ]
    assert tokens_of(rollouts) == [tokens for tokens, _ in alone]
    assert [m.tolist() for m in rollouts.written] == [written for _, written in alone]
    replies = [sum(np.diff(m.astype(int)) < 0) for m in rollouts.written]
    assert sum(n > 0 for n in replies) > 12
    assert max(replies) > 1
    ends = set(eos_tokens(policy))
    assert any(ends & set(t[:-1]) for t in tokens_of(rollouts))


@pytest.mark.parametrize("batch_tokens", [1, 100])
def test_batches_do_not_change_a_reply(policy, batch_tokens):
    whole, cut = drawn(policy, Echo()), drawn(policy, Echo(), batch_tokens=batch_tokens)
    assert tokens_of(cut) == tokens_of(whole)
    for mine, theirs in zip(cut.written, whole.written, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_longer_limit_continues_a_response(policy):
    short, long = (tokens_of(drawn(policy, Echo(), n)) for n in (16, 24))
    assert [b[: len(a)] for a, b in zip(short, long, strict=True)] == short
    # A reply without room for a further token is not read in part.
    assert any(
        len(a) < 16 and len(b) > len(a) for a, b in zip(short, long, strict=True)
    )


def test_the_policy_has_the_last_word(policy):
    for mask in drawn(policy, Echo()).written:
        assert mask[0]
        assert mask[-1]


def test_what_the_tool_wrote_is_in_the_text(policy):
    rollouts = drawn(policy, Echo())
    for text, tokens in zip(rollouts.text, rollouts.response_tokens, strict=True):
        assert text == policy.tokenizer.decode(tokens, **DECODED)
    assert any("(4:" in text for text in rollouts.text)


def test_a_silent_tool_changes_nothing(policy):
    class Silent(Echo):
        def reply(self, prompt_id, text):
            return None

    silent, none = drawn(policy, Silent()), drawn(policy, None)
    assert tokens_of(silent) == tokens_of(none)
    assert silent.written is None
