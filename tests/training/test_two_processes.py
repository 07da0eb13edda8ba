"""The same run, its work divided between two processes of this machine."""

import shutil

import numpy as np
import pytest
import torch

from entrometer.errors import InvalidValue
from entrometer.policy import load_policy
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import newest_complete, read_update, update_path, verify
from entrometer.training import run as room
from tests.training.toy import digests, quietly
from tests.training.two_processes import TWO, data_parallel, fully_sharded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "uncut"
    data_parallel(path)
    return path


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "sharded"
    fully_sharded(path)
    return path


def cut(run, path):
    """The run as it was after step 5."""
    shutil.copytree(run, path)
    for step in (6, 7):
        shutil.rmtree(path / f"checkpoint-{step}")
    return path


def optimizer_state(run, step):
    path = run / f"checkpoint-{step}" / "optimizer.bin"
    return torch.load(path, weights_only=True)["state"]


def test_one_table_has_the_rows_of_both_processes_in_whole_groups(uncut):
    half = TWO.prompts * TWO.responses * TWO.window // 2
    assert len(list((uncut / "updates").iterdir())) == TWO.steps
    windows = []
    for step in range(1, TWO.steps + 1):
        batch = read_update(update_path(uncut, step))
        assert batch.count == TWO.prompts * TWO.responses
        assert (batch.row < half).sum() == (batch.row >= half).sum()
        np.testing.assert_array_equal(batch.group, batch.row // TWO.responses)
        for group in np.unique(batch.group):
            rows = batch.group == group
            assert rows.sum() == TWO.responses
            assert len(set(batch.prompt[rows])) == 1
            reward = batch.reward[rows]
            advantage = [batch.advantage[i][0] for i in np.flatnonzero(rows)]
            np.testing.assert_allclose(
                advantage, reward - reward.mean(), rtol=0, atol=1e-6
            )
        windows.append(batch.row)
    for first in range(0, TWO.steps - 1, TWO.window):
        rows = np.sort(np.concatenate(windows[first : first + TWO.window]))
        np.testing.assert_array_equal(rows, np.arange(2 * half))


def test_processes_sample_different_responses(uncut):
    batch = read_update(update_path(uncut, 1))
    half = batch.count // 2
    first, second = batch.response_tokens[:half], batch.response_tokens[half:]
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_checkpoint_holds_what_each_process_has(uncut):
    for step in range(TWO.steps + 1):
        checkpoint = uncut / f"checkpoint-{step}"
        about = verify(checkpoint)
        assert about["processes"] == 2
        names = {p.name for p in checkpoint.iterdir()}
        both = {"window_0.pt", "window_1.pt", "rng_state_0.pth", "rng_state_1.pth"}
        assert both <= names
        assert "rng_state.pth" not in names
    assert load_checkpoint(uncut / "checkpoint-7").state.step == 7


def test_resume_inside_a_window_of_a_later_epoch_leaves_the_same_bits(uncut, tmp_path):
    path = cut(uncut, tmp_path / "cut")
    data_parallel(path)
    assert digests(path, TWO.steps) == digests(uncut, TWO.steps)
    assert newest_complete(path) == (path / "checkpoint-7", [])


def test_one_process_does_not_go_on_with_what_two_began(uncut, tmp_path):
    path = cut(uncut, tmp_path / "cut")
    said = r"'processes': 2.*'processes': 1"
    with quietly(), pytest.raises(InvalidValue, match=said):
        room.train(TWO, path)


def test_sharded_training_is_the_same_training(uncut, sharded):
    """The sums of a product and of a norm are rounded in another order, no more."""
    for step in range(1, TWO.steps + 1):
        whole, part = (read_update(update_path(run, step)) for run in (uncut, sharded))
        for i in range(whole.count):
            np.testing.assert_array_equal(
                part.response_tokens[i], whole.response_tokens[i]
            )
            np.testing.assert_allclose(part.S[i], whole.S[i], rtol=0, atol=1e-3)
            np.testing.assert_allclose(part.H[i], whole.H[i], rtol=0, atol=1e-3)


def test_a_checkpoint_of_sharded_training_opens_like_any_other(uncut, sharded):
    """Also the one before the first step, which leaves the optimizer at step 0."""
    for step in (0, TWO.steps):
        about = verify(sharded / f"checkpoint-{step}")
        # No process has a whole gradient to take the noise from.
        assert about["instruments"] == ["Recorder", "Entropy", "EffectiveSampleSize"]
        state = optimizer_state(sharded, step)
        assert {float(x["step"]) for x in state.values()} == {step}
        policies = [load_policy(run / f"checkpoint-{step}") for run in (sharded, uncut)]
        part, whole = (policy.trained() for policy in policies)
        assert part.keys() == whole.keys()
        for name in whole:
            torch.testing.assert_close(part[name], whole[name], rtol=0, atol=1e-3)


def test_sharded_training_resumes_to_the_same_bits(sharded, tmp_path):
    path = cut(sharded, tmp_path / "cut")
    fully_sharded(path)
    assert digests(path, TWO.steps) == digests(sharded, TWO.steps)
    here, there = (optimizer_state(run, TWO.steps) for run in (path, sharded))
    assert here.keys() == there.keys()
    for name, state in there.items():
        assert all(torch.equal(here[name][key], state[key]) for key in state)
