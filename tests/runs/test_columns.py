import numpy as np
import pytest

from entrometer.runs import DamagedFile
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
    with pytest.raises(DamagedFile, match="delete it and run"):
        read_columns(tmp_path / "a")


@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.99])
def test_a_file_cut_short_or_altered_is_refused(tmp_path, at):
    path = tmp_path / "a"
    write_columns(path, COLUMNS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(at * len(whole))])
    with pytest.raises(DamagedFile):
        read_columns(path)
