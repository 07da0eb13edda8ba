"""Token exports of prime-rl, by the schema that it writes (version 1)."""

import json

import numpy as np
import pytest

from entrometer.cli import main
from entrometer.importers import read_prime_rl
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.runs import read_update, update_path

PROMPTS = ([5, 6, 7], [8, 9])


def line(prompt, response, reward, *, mask=None, step=3, **other):
    """A sequence; what is off the mask is null or nonsense, as in an export."""
    pad, n = [None] * len(prompt), len(response)
    counted = mask or [True] * n
    whole = len(prompt) + n
    return {
        "schema_version": 1,
        "step": step,
        "rank": 0,
        "token_ids": [*prompt, *response],
        "position_ids": list(range(whole)),
        "loss_mask": [False] * len(prompt) + counted,
        "advantages": [*pad, *[reward - 0.5] * n],
        "rewards": [reward] * whole,
        "inference_logprobs": [0.0] * len(prompt) + [-0.25 * (i + 1) for i in range(n)],
        "trainer_logprobs": [*pad, *[-0.5 * (i + 1) for i in range(n)]],
        "entropy": [*pad, *[0.125 * (i + 1) for i in range(n)]],
        "is_masked": [None] * whole,
        **other,
    }


def export(folder, *ranks):
    folder.mkdir(parents=True, exist_ok=True)
    for rank, lines in enumerate(ranks):
        text = "".join(json.dumps(one) + "\n" for one in lines)
        (folder / f"rank_{rank}.jsonl").write_text(text)
    return folder


def test_sequences_become_a_recorded_update(tmp_path):
    first, second = PROMPTS
    folder = export(
        tmp_path / "step_3",
        [line(first, [1, 2], 1.0), line(second, [3], 0.0)],
        [line(first, [4, 1, 2], 0.0, mask=[True, False, True])],
    )
    found = read_prime_rl(folder, temperature=0.7)
    assert found.settings.step == 4
    assert (found.settings.temperature, found.settings.max_tokens) == (0.7, 3)
    # Responses to one prompt stand together, whichever process had them.
    assert found.group.tolist() == [0, 0, 1]
    assert [t.tolist() for t in found.prompt_tokens] == [first, first, second]
    assert [t.tolist() for t in found.response_tokens] == [[1, 2], [4, 1, 2], [3]]
    assert found.counted[1].tolist() == [True, False, True]
    assert found.reward.tolist() == [1.0, 0.0, 0.0]
    assert found.advantage[0].tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(found.S[1], [-0.5, -1.0, -1.5])
    np.testing.assert_array_equal(found.S_old[1], [-0.25, -0.5, -0.75])
    np.testing.assert_array_equal(found.H[1], [0.125, 0.25, 0.375])


def test_the_command_line_puts_it_beside_the_checkpoints(tmp_path, capsys):
    folder = export(tmp_path / "step_3", [line(PROMPTS[0], [1, 2], 1.0)])
    run = tmp_path / "run"
    arguments = ["import", str(folder), str(run), "--max-tokens", "16", "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["step"], told["responses"], told["max_tokens"]) == (4, 1, 16)
    assert read_update(update_path(run, 4)).count == 1
    assert main(arguments) == 2
    assert "got one that exists; name another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 2}, "expected schema 1, got 2"),
        ({"entropy": [0.1]}, "expected columns of one length"),
        ({"trainer_logprobs": [None] * 5}, "expected trainer_logprobs of every token"),
        ({"step": "three"}, "expected a number of steps"),
    ],
)
def test_what_is_no_export_is_told_with_its_line(change, why, tmp_path):
    good = line(PROMPTS[0], [1, 2], 1.0)
    folder = export(tmp_path / "step_3", [good, good | change])
    with pytest.raises(UnreadableSource, match=r"rank_0\.jsonl:2: .*") as told:
        read_prime_rl(folder, temperature=1.0)
    assert why in str(told.value)


def test_steps_are_not_mixed_and_a_directory_without_any_is_told(tmp_path):
    both = [line(PROMPTS[0], [1], 1.0), line(PROMPTS[0], [2], 0.0, step=4)]
    with pytest.raises(UnreadableSource, match=r"got steps \[3, 4\]"):
        read_prime_rl(export(tmp_path / "step_3", both), temperature=1.0)
    with pytest.raises(SourceNotFound, match="enable_token_export"):
        read_prime_rl(tmp_path, temperature=1.0)
