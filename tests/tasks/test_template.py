"""The template: one format to ask for, to write, to check and to read from."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrometer.tasks.template import (
    ANSWER,
    END_ANSWER,
    END_THINK,
    LONGEST_ANSWER,
    TAGS,
    THINK,
    extract_answer,
    parse,
    prompt,
    response,
)

plain = st.text().filter(lambda text: not any(tag in text for tag in TAGS))
# What a policy under training writes: tags, parts of tags and blanks in any order, or
# the four tags with some of these in the gaps, of which a part keeps to the format.
pieces = st.lists(st.sampled_from([*TAGS, "<", "think>", "</", "a"]))
gap = st.sampled_from(["", "", " ", "\n", "a", "<", THINK])
nearly = st.tuples(gap, *(part for tag in TAGS for part in (st.just(tag), gap)))


def test_a_prompt_holds_its_question_and_names_both_blocks():
    assert prompt("What is 1 + 2?") == ("What is 1 + 2?\nUse <think> then <answer>.\n")


@given(thought=plain, answer=plain)
def test_what_was_put_into_a_response_is_parsed_out_of_it(thought, answer):
    assert parse(response(thought, answer)) == (thought.strip(), answer.strip())


def test_blanks_around_the_blocks_are_within_the_format():
    text = " \n<think> a </think>\n\n<answer> 3 </answer> \n"
    assert parse(text) == ("a", "3")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "<think>a</think>",
        "<answer>3</answer>",
        "<think>a</think><answer>3",
        "<think>a<answer>3</answer>",
        "<answer>3</answer><think>a</think>",
        "<think>a<answer>3</answer></think>",
        "</think>a<think><answer>3</answer>",
        "<think>a</think></answer>3<answer>",
        "so <think>a</think><answer>3</answer>",
        "<think>a</think> so <answer>3</answer>",
        "<think>a</think><answer>3</answer>.",
        "<think>a</think><answer>3</answer><answer>3</answer>",
        "<think>a</think><think>b</think><answer>3</answer>",
        "<think><think>a</think><answer>3</answer>",
        "<Think>a</Think><answer>3</answer>",
    ],
)
def test_anything_but_one_thought_and_then_one_answer_breaks_the_format(text):
    assert parse(text) is None


@given(st.one_of(pieces, nearly))
def test_the_format_is_the_one_that_its_own_description_gives(parts):
    """Against a checker that reads the sequence of tags instead of cutting the text."""
    tags, outside, rest = [], "", "".join(parts)
    while rest:
        tag = next((tag for tag in TAGS if rest.startswith(tag)), None)
        if tag is not None:
            tags.append(tag)
        elif not tags or tags[-1] in (END_THINK, END_ANSWER):
            outside += rest[0]
        rest = rest[len(tag or rest[0]) :]
    keeps = tags == list(TAGS) and not outside.strip()
    assert (parse("".join(parts)) is not None) == keeps


def test_the_last_answer_counts_whatever_surrounds_it():
    text = "hm <answer>1</answer> no: <answer> 2 </answer> or <answer>3"
    assert extract_answer(text) == "2"


@pytest.mark.parametrize(
    "text", ["", "3", "<answer>3", "3</answer>", "</answer><answer>"]
)
def test_without_a_complete_block_there_is_no_answer(text):
    assert extract_answer(text) is None


def test_an_answer_is_read_up_to_its_longest_and_no_further():
    digits = "1" * LONGEST_ANSWER
    assert extract_answer(response("", digits)) == digits
    assert extract_answer(response("", digits + "1")) is None


@pytest.mark.parametrize("tag", [THINK, END_THINK, ANSWER, END_ANSWER, "<", " "])
def test_megabytes_of_tags_are_read_in_linear_time(tag):
    text = tag * (4_000_000 // len(tag))
    start = time.perf_counter()
    assert parse(text) is None
    extract_answer(text)
    assert time.perf_counter() - start < 2.0
