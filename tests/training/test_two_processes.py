"""The same run, its work divided between two processes of this machine."""

import json
import shutil

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.interventions import intervention
from entrometer.policy.checkpoint import load_checkpoint
from entrometer.runs import newest_complete, read_update, update_path, verify
from entrometer.training import read_config
from entrometer.training import run as room
from tests.training.recorded_gradient import (
    distance,
    recorded_gradient,
    trained_gradient,
)
from tests.training.toy import digests, quietly
from tests.training.two_processes import (
    CONFIGS,
    TWO,
    data_parallel,
    fully_sharded,
    fully_sharded_until_killed,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "uncut"
    data_parallel(path)
    return path


@pytest.fixture(scope="module")
def uncut_whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "uncut"
    data_parallel(path, "whole")
    return path


@pytest.fixture(scope="module")
def uncut_intervened(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "uncut"
    data_parallel(path, "intervened")
    return path


@pytest.fixture(scope="module", params=CONFIGS)
def sharded(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "sharded"
    fully_sharded(path, request.param)
    return path


@pytest.fixture(scope="module")
def not_sharded(sharded, request):
    """The same training with the model whole on both processes."""
    trained = trained_of(sharded)
    name = "uncut" if trained == "adapter" else f"uncut_{trained}"
    return request.getfixturevalue(name)


def trained_of(run):
    """The name of a run's config."""
    config = read_config(run)
    (name,) = [name for name, known in CONFIGS.items() if known == config]
    return name


def cut(run, path):
    """The run as it was after step 5."""
    shutil.copytree(run, path)
    for step in (6, 7):
        shutil.rmtree(path / f"checkpoint-{step}")
    return path


def check_whole_groups(run):
    """One table a step has the rows of both processes."""
    half = TWO.prompts * TWO.responses * TWO.window // 2
    assert len(list((run / "updates").iterdir())) == TWO.steps
    windows = []
    for step in range(1, TWO.steps + 1):
        batch = read_update(update_path(run, step))
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


def test_one_table_has_the_rows_of_both_processes_in_whole_groups(uncut):
    check_whole_groups(uncut)


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


def test_sharded_training_is_the_same_training(not_sharded, sharded):
    """The sums of a product and of a norm are rounded in another order, no more."""
    check_whole_groups(sharded)
    for step in range(1, TWO.steps + 1):
        runs = (not_sharded, sharded)
        whole, part = (read_update(update_path(run, step)) for run in runs)
        for i in range(whole.count):
            np.testing.assert_array_equal(
                part.response_tokens[i], whole.response_tokens[i]
            )
            np.testing.assert_allclose(part.S[i], whole.S[i], rtol=0, atol=1e-4)
            np.testing.assert_allclose(part.H[i], whole.H[i], rtol=0, atol=1e-4)


def test_a_checkpoint_of_sharded_training_opens_like_any_other(not_sharded, sharded):
    """Also the one before the first step, which leaves the optimizer at step 0."""
    for step in (0, TWO.steps):
        about = verify(sharded / f"checkpoint-{step}")
        # Accelerate writes it where it does shard.
        assert (sharded / f"checkpoint-{step}" / "pytorch_model_fsdp.bin").is_file()
        # No process has a whole gradient to take the noise from.
        without = ["Recorder", "Entropy", "EffectiveSampleSize", "Forecast"]
        assert about["instruments"] == without
        runs = (not_sharded, sharded)
        whole, part = (load_checkpoint(run / f"checkpoint-{step}") for run in runs)
        assert part.state.step == whole.state.step == step
        assert part.hyperparameters == whole.hyperparameters
        assert part.learning_rate == whole.learning_rate
        close(part.policy.trained(), whole.policy.trained())
        close(part.state.first_moment, whole.state.first_moment)
        close(part.state.second_moment, whole.state.second_moment)


def close(part, whole):
    assert list(part) == list(whole)
    for name in whole:
        assert (part[name] - whole[name]).norm() <= 1e-4 * whole[name].norm(), name


def test_sharded_training_that_is_killed_goes_on_to_the_same_bits(sharded, tmp_path):
    trained = trained_of(sharded)
    path = tmp_path / "killed"
    fully_sharded_until_killed(path, trained, step=6)
    assert newest_complete(path) == (path / "checkpoint-5", [])
    fully_sharded(path, trained)
    assert digests(path, TWO.steps) == digests(sharded, TWO.steps)


def test_the_gradient_of_an_intervention_is_that_of_the_rows_of_both(uncut_intervened):
    """Once more on one process, from the recorded rows, with the settings of a step."""
    path, steps = uncut_intervened, TWO.steps
    last = path / f"checkpoint-{steps}"
    logs = json.loads((last / "trainer_state.json").read_text())["log_history"]
    for step, log in enumerate(logs[:steps], start=1):
        weight = log["intervention/weight"]
        chosen = intervention(f"toy-lively:weight={weight!r}")
        expected = recorded_gradient(path, step, chosen, steps=steps)
        assert distance(trained_gradient(path, step), expected) < 1e-5
    assert weight > logs[0]["intervention/weight"] == 0.5


def test_an_intervened_run_of_two_processes_goes_on_to_the_same_bits(
    uncut_intervened, tmp_path
):
    path = cut(uncut_intervened, tmp_path / "cut")
    data_parallel(path, "intervened")
    assert digests(path, TWO.steps) == digests(uncut_intervened, TWO.steps)
