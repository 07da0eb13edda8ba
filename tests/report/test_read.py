import json
import re

import numpy as np
import pytest

from benchmarks.report.synthetic_influence import Shape as Influence
from benchmarks.report.synthetic_influence import influence
from benchmarks.report.synthetic_kernel import Shape as Kernel
from benchmarks.report.synthetic_kernel import kernel
from entrometer.errors import InvalidValue
from entrometer.report.read import (
    InfluenceRun,
    KernelRun,
    MeasurementRun,
    TrainingRun,
    read_runs,
)
from entrometer.runs import DamagedFile, seal, write_metrics


@pytest.fixture
def training(tmp_path):
    run = tmp_path / "training"
    run.mkdir()
    (run / "config.json").write_text('{"steps": 3}')
    write_metrics(run / "metrics.parquet", {"step": np.array([1.0, 2.0, 3.0])})
    return run


def evaluation(run, key, responses):
    (run / "evaluation" / key).mkdir(parents=True)
    table = {"step": np.array([0.0]), "responses": np.array([responses])}
    write_metrics(run / "evaluation" / key / "table.parquet", table)


def test_a_run_is_known_by_its_content(new_run, training):
    measured, trained = read_runs([new_run(), training])
    assert isinstance(measured, MeasurementRun)
    assert isinstance(trained, TrainingRun)
    assert measured.title == "A title"
    assert trained.config == {"steps": 3}


@pytest.mark.parametrize("made", [True, False])
def test_anything_else_is_refused_in_one_line(tmp_path, made):
    other = tmp_path / "other"
    if made:
        other.mkdir()
    with pytest.raises(InvalidValue, match=r"expected .* got .*; name") as refused:
        read_runs([other])
    assert "\n" not in str(refused.value)


def test_an_unfinished_measurement_is_refused_by_the_table_that_it_lacks(new_run):
    run = new_run()
    (run / "results" / "errors.parquet").unlink()
    with pytest.raises(InvalidValue, match=r"errors\.parquet; finish it with --resume"):
        read_runs([run])


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"title": 1, "sentences": [], "warnings": []}']
)
def test_a_damaged_summary_is_refused(new_run, text):
    run = new_run()
    (run / "summary.json").write_text(text)
    with pytest.raises(DamagedFile, match=re.escape("summary.json")):
        read_runs([run])


def test_a_table_that_is_cut_short_is_refused(new_run):
    run = new_run()
    path = run / "results" / "changes.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedFile):
        read_runs([run])


def test_runs_of_one_name_are_told_apart(new_run, tmp_path):
    runs = [new_run(name="a/run"), new_run(name="b/run"), new_run(name="other")]
    assert [r.name for r in read_runs(runs)] == ["run (1)", "run (2)", "other"]


@pytest.mark.parametrize("count", [0, 9])
def test_a_figure_must_be_able_to_tell_the_runs_apart(new_run, count):
    with pytest.raises(InvalidValue, match=f"expected 1 to 8 runs.*got {count}"):
        read_runs([new_run()] * count)


def test_of_several_evaluations_the_largest_is_shown(training):
    evaluation(training, "aa", 512.0)
    evaluation(training, "bb", 64.0)
    (run,) = read_runs([training])
    assert run.evaluation["responses"].tolist() == [512.0]


def test_metrics_without_steps_are_refused(training):
    write_metrics(training / "metrics.parquet", {"loss": np.array([1.0])})
    with pytest.raises(InvalidValue, match="no column `step`"):
        read_runs([training])


def test_settings_and_facts_may_be_absent(new_run):
    run = new_run()
    (run / "config.json").unlink()
    (run / "about.json").unlink()
    (read,) = read_runs([run])
    assert read.config == read.about == {}
    assert json.loads((run / "summary.json").read_text())["title"] == read.title


@pytest.mark.parametrize(
    ("tables", "kind"),
    [
        (influence(Influence(checkpoints=("a",), responses=2)), InfluenceRun),
        (kernel(Kernel(checkpoints=("a",), responses=2)), KernelRun),
    ],
)
def test_a_measurement_is_known_by_its_tables(new_run, tables, kind):
    (run,) = read_runs([new_run(tables)])
    assert isinstance(run, kind)
    assert repr(run.tables) == repr(tables)


def test_the_manifest_says_what_an_unfinished_measurement_is(new_run):
    run = new_run(kernel(Kernel(checkpoints=("a",), responses=2)))
    for path in (run / "results").iterdir():
        path.unlink()
    seal(run, about={"kind": "kernel"})
    with pytest.raises(InvalidValue, match=r"without results/blocks\.parquet; finish"):
        read_runs([run])


def test_an_unfinished_measurement_of_influence_is_refused(new_run):
    run = new_run(influence(Influence(checkpoints=("a",), responses=2)))
    (run / "results" / "tokens.parquet").unlink()
    with pytest.raises(InvalidValue, match=r"tokens\.parquet; finish it with --resume"):
        read_runs([run])
