import json

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.runs import DamagedFile
from entrometer.runs.training_series import training_series


def write_log(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    return folder


def test_the_log_of_the_newest_checkpoint_is_read(tmp_path):
    write_log(tmp_path / "checkpoint-9", [{"step": 1, "entropy": 9.0, "reward": 9.0}])
    rows = [
        {"step": 2, "entropy": 0.5, "entropy/token": 0.6, "reward": 0.25},
        {"step": 1, "entropy/token": 0.7, "reward": None},
        {"step": 2, "eval_loss": 1.0},
        {"step": 3, "entropy": 0.4, "reward": 0.5},
        {"step": 4, "train_runtime": 5.0},
    ]
    newest = write_log(tmp_path / "checkpoint-10", rows)
    for run in (tmp_path, newest):
        series = training_series(run)
        assert series.source == newest / "trainer_state.json"
        np.testing.assert_equal(series.step, [1.0, 2.0, 3.0])
        # The last step is from before the training was watched.
        np.testing.assert_equal(series.entropy, [0.7, 0.6, 0.4])
        np.testing.assert_equal(series.reward, [np.nan, 0.25, 0.5])


def test_values_of_other_kinds_are_not_known(tmp_path):
    rows = [
        {"step": 1, "entropy": "0.5", "reward": [1]},
        {"step": None, "entropy": 0.5, "reward": 1.0},
        {"step": 3, "entropy": {}, "reward": 0.5},
        {"entropy": 0.1, "reward": 1.0},
    ]
    series = training_series(write_log(tmp_path, rows))
    np.testing.assert_equal(series.step, [3.0])
    np.testing.assert_equal(series.entropy, [np.nan])
    np.testing.assert_equal(series.reward, [0.5])


def test_a_log_without_steps_is_empty(tmp_path):
    assert training_series(write_log(tmp_path, [])).step.size == 0
    assert training_series(write_log(tmp_path, [{"entropy": 0.5}])).step.size == 0


@pytest.mark.parametrize(
    "content", ["", "[]", '{"log_history": 3}', '{"log_history": [3]}']
)
def test_what_is_no_log_is_refused_by_name(tmp_path, content):
    (tmp_path / "trainer_state.json").write_text(content)
    with pytest.raises(DamagedFile, match=r"trainer_state\.json"):
        training_series(tmp_path)


def test_a_directory_with_neither_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="recorded updates or a checkpoint"):
        training_series(tmp_path)
