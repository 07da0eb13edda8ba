import pytest

from entrometer.runs.private_paths import without_paths


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("/home/me/models/base", "base"),
        ("~/models/base", "base"),
        ("../../warm/checkpoint-4", "warm/checkpoint-4"),
        ("../checkpoint-4", "checkpoint-4"),
        ("./mine.py:score", "mine.py:score"),
        ("clients/acme/prompts.jsonl", "prompts.jsonl"),
        ("/home/me/with spaces/checkpoint-4", "with spaces/checkpoint-4"),
        ("/", ""),
    ],
)
def test_of_a_path_its_last_part_stays(value, kept):
    assert without_paths(value) == (kept, 1)


@pytest.mark.parametrize(
    "value",
    [
        "Qwen/Qwen2.5-1.5B",
        "owner/name@0123456789abcdef0123456789abcdef01234567",
        "https://arxiv.org/abs/2505.22617",
        "-0.07 nats/token and 3/4 of it, in [0, 1]/2",
        "TRL 1.16.0: loss_type=dr_grpo",
        "a/b/c are letters",
        "",
    ],
)
def test_names_numbers_and_addresses_stay(value):
    assert without_paths(value) == (value, 0)


def test_sentences_lose_paths_that_they_quote():
    content = {
        "policy": "/home/me/my models/base",
        "sentences": (
            "Loaded /home/me/my models/base, seed 3.",
            "Wrote '/home/me/out/table.parquet'; see (../other/x).",
        ),
    }
    cleaned, count = without_paths(content)
    assert cleaned == {
        "policy": "base",
        "sentences": (
            "Loaded base, seed 3.",
            "Wrote 'table.parquet'; see (x).",
        ),
    }
    assert count == 4


def test_a_slash_alone_takes_no_slash_out_of_sentences():
    content = {"sign": "/", "sentence": "-0.07 nats/token, 3/4 of it"}
    assert without_paths(content) == (content | {"sign": ""}, 1)
