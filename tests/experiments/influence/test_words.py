import numpy as np
import pytest

from entrometer.experiments.influence.requests import DecodedTexts, _texts, kind_of
from entrometer.experiments.token_influence.folds import folds_of
from entrometer.policy import eos_tokens
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import random_rollouts


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("7", "digit"),
        (" 12", "digit"),
        ("the", "word"),
        (" Löwe", "word"),
        (" ", "space"),
        ("\n\n", "space"),
        ("=", "sign"),
        (" ->", "sign"),
        ("+$", "sign"),
        ("a1", "other"),
        ("<eos>", "other"),
        ("", "other"),
        ("\ufffd", "other"),
        ("\x1b", "other"),
    ],
)
def test_every_text_has_one_kind(text, kind):
    assert kind_of(text) == kind


def test_what_ends_a_response_is_an_end_whatever_it_says():
    words = DecodedTexts({2: "<eos>", 5: "7"}, frozenset({2}), [], [])
    assert [words.kind(2), words.kind(5)] == ["end", "digit"]


def test_the_tokenizer_s_end_is_marked():
    policy, rollouts = tiny_policy(), random_rollouts()
    (end,) = eos_tokens(policy)
    rollouts.response_tokens[0][-1] = end
    (marked,) = (w for w in _texts(policy, rollouts) if w.ends)
    assert (marked.number, marked.text) == (end, "<eos>")


def test_prompts_go_round_the_folds_as_they_appear_and_stay_together():
    prompt = np.array([9, 4, 9, 7, 1, 4])
    assert folds_of(prompt, 3).tolist() == [0, 1, 0, 2, 0, 1]
