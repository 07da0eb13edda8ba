"""Completions that TRL logs: texts, from which no update can be made."""

import pandas as pd
import pytest

from entrometer.cli import main


@pytest.fixture
def completions(tmp_path):
    """The file of a step, with the columns that TRL 1.16 writes."""
    table = {
        "step": [3, 3],
        "prompt": [[{"role": "user", "content": "1 + 1?"}]] * 2,
        "completion": [[{"role": "assistant", "content": "2"}]] * 2,
        "accuracy_reward": [1.0, 0.0],
        "advantage": [0.5, -0.5],
    }
    (tmp_path / "completions").mkdir()
    file = tmp_path / "completions" / "completions_00003.parquet"
    pd.DataFrame(table).to_parquet(file)
    return file


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_they_lack_is_one_line_with_the_remedy(completions, level, capsys):
    source = [completions, *completions.parents][level]
    assert main(["import", str(source), str(completions.parents[1] / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "completions_00003.parquet: expected token ids, log-probabilities" in line
    assert "(step, prompt, completion, accuracy_reward, advantage)" in line
    assert "em.watch(trainer)" in line


def test_a_file_that_is_no_table_is_named(completions, capsys):
    completions.write_bytes(b"PAR1 but nothing else PAR1")
    assert main(["import", str(completions), "run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "got a file that is damaged or of something else" in line


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path, capsys):
    import os

    os.mkfifo(tmp_path / "completions_00003.parquet")
    assert main(["import", str(tmp_path), str(tmp_path / "run")]) == 2
    assert "expected a regular file" in capsys.readouterr().err
