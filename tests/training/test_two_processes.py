"""The same run, its work divided between two processes of this machine."""

import shutil

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import newest_complete, read_update, update_path, verify
from entrometer.training import run as room
from tests.training.toy import digests, quietly
from tests.training.two_processes import TWO, torchrun

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "uncut"
    torchrun(path)
    return path


@pytest.fixture
def cut(uncut, tmp_path):
    """The run as it was after step 5."""
    path = tmp_path / "cut"
    shutil.copytree(uncut, path)
    for step in (6, 7):
        shutil.rmtree(path / f"checkpoint-{step}")
    return path


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


def test_resume_inside_a_window_of_a_later_epoch_leaves_the_same_bits(uncut, cut):
    torchrun(cut)
    assert digests(cut, TWO.steps) == digests(uncut, TWO.steps)
    assert newest_complete(cut) == (cut / "checkpoint-7", [])


def test_one_process_does_not_go_on_with_what_two_began(cut):
    with (
        quietly(),
        pytest.raises(InvalidValue, match=r"'processes': 2.*'processes': 1"),
    ):
        room.train(TWO, cut)
