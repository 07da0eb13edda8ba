import json

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.runs import (
    DamagedFile,
    IncompleteDirectory,
    logged_metrics,
    read_metrics,
    seal,
    write_metrics,
)
from entrometer.runs.columns import read_columns, write_columns
from entrometer.runs.rows import write_rows
from entrometer.runs.tables.measure import Convergence

COLUMNS = {
    "S": np.array([-0.1, -1e-300, np.nan]),
    "H": np.array([0.1 + 0.2, np.inf, 0]),
}


def test_columns_come_back_with_every_bit(tmp_path):
    write_columns(tmp_path / "a", COLUMNS)
    read = read_columns(tmp_path / "a")
    assert list(read) == ["S", "H"]
    for name, x in COLUMNS.items():
        assert read[name].tobytes() == x.tobytes()


def test_another_table_is_refused(tmp_path):
    write_rows(tmp_path / "a", Convergence, [])
    with pytest.raises(DamagedFile, match="delete it, then run"):
        read_columns(tmp_path / "a")


@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.99])
def test_a_file_cut_short_or_altered_is_refused(tmp_path, at):
    path = tmp_path / "a"
    write_columns(path, COLUMNS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(at * len(whole))])
    with pytest.raises(DamagedFile):
        read_columns(path)


def checkpoint(run, step, log):
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    seal(folder)
    return folder


def test_log_of_the_newest_checkpoint_is_taken(tmp_path):
    checkpoint(tmp_path, 2, [{"step": 9}])
    checkpoint(tmp_path, 4, [{"step": 1, "loss": 0.5}, {"step": 2, "reward": None}])
    found = logged_metrics(tmp_path)
    np.testing.assert_array_equal(found["step"], [1, 2])
    np.testing.assert_array_equal(found["loss"], [0.5, np.nan])
    np.testing.assert_array_equal(found["reward"], [np.nan, np.nan])


def test_a_damaged_newest_checkpoint_is_no_shorter_training(tmp_path):
    checkpoint(tmp_path, 2, [{"step": 1}, {"step": 2}])
    damaged = checkpoint(tmp_path, 4, [{"step": 9}])
    (damaged / "trainer_state.json").write_text("{}")
    with pytest.raises(IncompleteDirectory, match=r"trainer_state\.json"):
        logged_metrics(tmp_path)


def test_summary_of_a_finished_training_is_no_step(tmp_path):
    checkpoint(tmp_path, 1, [{"step": 1}, {"step": 1, "train_runtime": 3.0}])
    assert logged_metrics(tmp_path)["step"].tolist() == [1]


def test_run_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(InvalidValue, match="train it first"):
        logged_metrics(tmp_path)


def test_metrics_come_back_as_they_were(tmp_path):
    metrics = {"step": np.arange(3.0), "x/y": np.array([1.0, np.nan, np.inf])}
    write_metrics(tmp_path / "m.parquet", metrics)
    found = read_metrics(tmp_path / "m.parquet")
    assert found.keys() == metrics.keys()
    np.testing.assert_array_equal(found["x/y"], metrics["x/y"])


def test_other_files_are_refused(tmp_path):
    (tmp_path / "m.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DamagedFile, match="make it again"):
        read_metrics(tmp_path / "m.parquet")
