"""Training dumps of slime, by the format that it writes (version 2)."""

import json

import numpy as np
import pytest
import torch

from entrometer.cli import main
from entrometer.experiments.update_batch import recorded_batch
from entrometer.importers import read_slime
from entrometer.policy.sources import UnreadableSource
from entrometer.runs import read_update, update_path, write_update

PROMPTS = ([5, 6, 7], [8, 9])


def sample(place, prompt, response, *, mask=None, **other):
    """A response as slime dumps it; the engine's log-probs differ a little."""
    n = len(response)
    S = -0.5 * torch.arange(1.0, n + 1)
    return {
        "data_parallel_rank": place % 2,
        "sample_index": place,
        "rollout_position": place,
        "tokens": torch.tensor([*prompt, *response]),
        "response_lengths": n,
        "total_lengths": n + len(prompt),
        "loss_masks": torch.tensor(mask or [1] * n, dtype=torch.int),
        "rewards": 0.5,
        "log_probs": S,
        "rollout_log_probs": S + 0.01,
        "advantages": torch.full((n,), 0.25 * (1 + place)),
        "entropy": 0.125 * torch.arange(1.0, n + 1),
        "truncated": 0,
        **other,
    }


def content(samples, **other):
    return {
        "format_version": 2,
        "rollout_id": 3,
        "rank": 0,
        "samples": samples,
        "dp_shards": [{"rank": 0, "global_batch_sizes": [len(samples)]}],
        "raw_reward": [1.0, 0.0, 0, 1.0][: len(samples)],
        **other,
    }


def batch():
    first, second = PROMPTS
    return [
        sample(0, first, [1, 2]),
        sample(1, second, [3]),
        sample(2, first, [4, 1, 2], mask=[1, 0, 1]),
    ]


def without(name):
    return content([{k: v for k, v in s.items() if k != name} for s in batch()])


def dump(tmp_path, what, folder="train_data"):
    (tmp_path / folder).mkdir(exist_ok=True)
    torch.save(what, tmp_path / folder / "3.pt")
    return tmp_path / folder / "3.pt"


def test_samples_become_a_recorded_update(tmp_path):
    found = read_slime(dump(tmp_path, content(batch())), temperature=0.7)
    assert found.settings.step == 4
    assert (found.settings.temperature, found.settings.max_tokens) == (0.7, 3)
    assert found.group.tolist() == [0, 0, 1]
    assert [t.tolist() for t in found.prompt_tokens] == [*[PROMPTS[0]] * 2, PROMPTS[1]]
    assert [t.tolist() for t in found.response_tokens] == [[1, 2], [4, 1, 2], [3]]
    assert found.counted[1].tolist() == [True, False, True]
    # Raw rewards, by the place of a sample in its rollout.
    assert found.reward.tolist() == [1.0, 0.0, 0.0]
    assert found.advantage[1].tolist() == [0.75, 0.75, 0.75]
    np.testing.assert_array_equal(found.S[1], [-0.5, -1.0, -1.5])
    np.testing.assert_array_equal(found.S_old[1], found.S[1])
    np.testing.assert_allclose(found.S_engine[1], [-0.49, -0.99, -1.49], rtol=1e-6)
    np.testing.assert_array_equal(found.H[1], [0.125, 0.25, 0.375])


def test_the_command_line_adds_it_to_a_run(tmp_path, capsys):
    file, run = dump(tmp_path, content(batch())), tmp_path / "run"
    arguments = ["import", str(file), str(run), "--max-tokens", "16", "--json"]
    assert main(arguments) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["step"], summary["responses"], summary["prompts"]) == (4, 3, 2)
    assert read_update(update_path(run, 4)).S_engine is not None


def test_a_response_that_the_loss_leaves_out_is_left_out(tmp_path):
    samples = [*batch(), sample(3, PROMPTS[1], [7, 7], mask=[0, 0])]
    assert read_slime(dump(tmp_path, content(samples)), temperature=1.0).count == 3


def test_without_entropies_it_is_measured_as_plain_and_as_nothing_else(tmp_path):
    whole = read_slime(dump(tmp_path, content(batch())), temperature=1.0)
    found = read_slime(dump(tmp_path, without("entropy")), temperature=1.0)
    assert all(np.isnan(H).all() for H in found.H)
    for name, update in (("whole", whole), ("found", found)):
        write_update(tmp_path / name, update)
    plain = recorded_batch(read_update(tmp_path / "found"))
    expected = recorded_batch(read_update(tmp_path / "whole"))
    np.testing.assert_array_equal(plain.alpha, expected.alpha)
    assert plain.alpha.any()
    np.testing.assert_array_equal(plain.gamma, np.zeros_like(plain.gamma))
    with pytest.raises(ValueError, match="expected recorded entropies for the loss"):
        recorded_batch(read_update(tmp_path / "found"), "entropy-bonus")


@pytest.mark.parametrize("folder", ["rollout_data", "elsewhere"])
def test_rollouts_without_their_training_are_told_what_they_lack(tmp_path, folder):
    rollout = {"tokens": [5, 6, 1], "response_length": 1, "rollout_log_probs": [-0.5]}
    file = dump(tmp_path, {"rollout_id": 3, "samples": [rollout]}, folder)
    with pytest.raises(UnreadableSource, match=r"entropies .*Name `train_data/3\.pt`"):
        read_slime(file, temperature=1.0)


def test_the_directory_of_a_dump_asks_for_a_file(tmp_path, capsys):
    dump(tmp_path, content(batch()))
    assert main(["import", str(tmp_path), str(tmp_path / "run")]) == 2
    assert "Name one file of it: `train_data/N.pt`" in capsys.readouterr().err


def changed(**columns):
    return content([batch()[0] | columns, *batch()[1:]])


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (content([without("entropy")["samples"][0], *batch()[1:]]), "all responses or"),
        (without("advantages"), "expected advantages of every response, got none"),
        (changed(rollout_top_p_token_ids=[1]), "--rollout-top-p 1"),
        (content(batch(), format_version=3), "expected format 2"),
        (content(batch(), rollout_id="3"), "expected the number of a rollout"),
        (content(batch(), rollout_id=-1), "expected the number of a rollout"),
        (content([]), "expected a list of samples"),
        (content([5]), "not iterable"),
        (content(batch(), dp_shards=[{"global_batch_sizes": [2, 1]}]), "one optimizer"),
        (content(batch(), raw_reward=[{"a": 1}] * 3), "--reward-key"),
        (content(batch(), raw_reward=[1.0]), "out of range"),
        (changed(rollout_position=-1), "the place of each sample"),
        (changed(tokens=torch.tensor([5, 6, 7, 1, -2])), "whole numbers from 0"),
        (changed(tokens=torch.tensor([5, 6, 7, 1, 2**31])), "below 2147483648"),
        (changed(tokens=torch.ones(5)), "whole numbers from 0"),
        (changed(tokens=[5, 6, 7, 1, 2]), "expected a flat tensor"),
        (changed(loss_masks=torch.tensor([1, 2])), "below 2"),
        (changed(loss_masks=torch.tensor([1])), "expected 2 numbers in loss_masks"),
        (changed(response_lengths=5), "a response after a prompt"),
        (changed(response_lengths=True), "a response after a prompt"),
        (changed(entropy=torch.ones(3)), "expected 2 numbers in entropy, got 3"),
        (changed(entropy=torch.ones(2, 1)), "expected a flat tensor"),
        (changed(entropy=torch.ones(2).to_sparse()), "expected a flat tensor"),
        (changed(log_probs="ab"), "expected a flat tensor"),
    ],
)
def test_what_is_no_whole_dump_is_refused_in_one_line(tmp_path, what, why):
    with pytest.raises(UnreadableSource) as refused:
        read_slime(dump(tmp_path, what), temperature=1.0)
    assert why in str(refused.value)
    assert "3.pt" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_numbers_that_are_none_are_refused(tmp_path):
    file = dump(tmp_path, changed(log_probs=torch.tensor([-1.0, torch.nan])))
    with pytest.raises(ValueError, match="expected finite numbers in S"):
        read_slime(file, temperature=1.0)
