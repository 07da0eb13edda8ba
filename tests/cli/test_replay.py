"""Runs repeated: the same, or the first difference and exit code 1."""

import shutil
from dataclasses import replace

import pytest

from entrometer.cli import main
from entrometer.runs import seal, verify
from entrometer.runs.rows import read_tables, write_rows
from entrometer.runs.tables.measure import Change, MeasureTables
from tests.cli.conftest import strictly


def altered(measured, tmp_path):
    """A copy whose third change was another one."""
    run = tmp_path / "altered"
    shutil.copytree(measured, run)
    rows = read_tables(measured, MeasureTables).changes
    rows[2] = replace(rows[2], observed=0.125)
    write_rows(run / "results" / "changes.parquet", Change, rows)
    seal(run, about=verify(measured), without=("passes",))
    return run


def test_a_measurement_comes_out_the_same(measured, tmp_path, capsys):
    new = tmp_path / "new"
    assert main(["replay", str(measured), "--run", str(new)]) == 0
    assert "identical: every table of the measure run" in capsys.readouterr().out
    assert (new / "results" / "terms.parquet").is_file()


def test_a_difference_is_told_by_its_place_with_exit_code_1(measured, tmp_path, capsys):
    old, new = altered(measured, tmp_path), tmp_path / "new"
    shutil.copytree(measured, new)
    arguments = ["replay", str(old), "--run", str(new), "--resume"]
    assert main(arguments) == 1
    said = "different: results/changes.parquet, row 2, observed: was 0.125, is "
    assert said in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 1
    told = strictly(capsys.readouterr().out)
    assert (told["kind"], told["identical"]) == ("measure", False)


def test_a_training_comes_out_the_same(trained, tmp_path, capsys):
    assert main(["replay", str(trained), "--run", str(tmp_path / "new")]) == 0
    assert "identical: every table of the training run" in capsys.readouterr().out


def test_an_evaluation_comes_out_the_same(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    arguments = ["--problems", "2", "--responses", "2", "--ks", "1", "--json"]
    assert main(["eval", str(run), *arguments]) == 0
    old = strictly(capsys.readouterr().out)["run"]
    assert main(["replay", old, "--run", str(tmp_path / "new")]) == 0
    assert "identical: every table of the eval run" in capsys.readouterr().out


def test_the_place_of_the_new_run_must_be_free(measured, tmp_path, capsys):
    for new, resume in ((tmp_path, []), (measured, ["--resume"])):
        assert main(["replay", str(measured), "--run", str(new), *resume]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"seed": 0}'])
def test_what_is_no_run_is_refused(tmp_path, content, capsys):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert main(["replay", str(tmp_path)]) == 2
    assert "expected a run whose manifest.json names" in capsys.readouterr().err


def test_a_run_that_was_not_finished_is_refused(measured, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(measured, run)
    seal(run, about=verify(measured) | {"finished": False}, without=("passes",))
    assert main(["replay", str(run)]) == 2
    assert "expected a finished run" in capsys.readouterr().err
