import json
import re
from dataclasses import fields

import numpy as np
import pytest

from benchmarks.report.synthetic import KINDS
from benchmarks.report.synthetic_influence import Shape as Influence
from benchmarks.report.synthetic_influence import influence
from benchmarks.report.synthetic_kernel import Shape as Kernel
from benchmarks.report.synthetic_kernel import kernel
from entrometer.errors import InvalidValue
from entrometer.report.read import read_runs
from entrometer.runs import DamagedFile, seal, write_metrics
from entrometer.runs.rows import write_rows
from entrometer.runs.tables.evaluation import Evaluated


@pytest.fixture
def training(tmp_path):
    run = tmp_path / "training"
    run.mkdir()
    (run / "config.json").write_text('{"steps": 3}')
    write_metrics(run / "metrics.parquet", {"step": np.array([1.0, 2.0, 3.0])})
    return run


def evaluation(run, key, responses):
    directory = run / "evaluation" / key
    (directory / "results").mkdir(parents=True)
    numbers = [f.name for f in fields(Evaluated) if f.type is float]
    row = Evaluated(
        checkpoint="checkpoint-0",
        step=0,
        quantity="pass_at_1",
        prompts=1,
        responses=int(responses),
        **dict.fromkeys(numbers, 0.5),
    )
    write_rows(directory / "results" / "results.parquet", Evaluated, [row])
    seal(directory, about={"kind": "eval"})


def test_a_run_is_known_by_its_content(new_run, training):
    measured, trained = read_runs([new_run(), training], KINDS)
    assert (measured.kind, trained.kind) == ("measure", "training")
    assert measured.title == "A title"
    assert trained.config == {"steps": 3}


@pytest.mark.parametrize("made", [True, False])
def test_anything_else_is_refused_in_one_line(tmp_path, made):
    other = tmp_path / "other"
    if made:
        other.mkdir()
    with pytest.raises(InvalidValue, match=r"expected .* got .*; name") as refused:
        read_runs([other], KINDS)
    assert "\n" not in str(refused.value)


def test_an_unfinished_measurement_is_refused_by_the_table_that_it_lacks(new_run):
    run = new_run()
    (run / "results" / "errors.parquet").unlink()
    with pytest.raises(InvalidValue, match=r"errors\.parquet; finish it with --resume"):
        read_runs([run], KINDS)


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"title": 1, "sentences": [], "warnings": []}']
)
def test_a_damaged_summary_is_refused(new_run, text):
    run = new_run()
    (run / "summary.json").write_text(text)
    seal(run, about={"kind": "measure"})
    with pytest.raises(DamagedFile, match=re.escape("summary.json")):
        read_runs([run], KINDS)


def test_a_table_that_is_cut_short_is_refused(new_run):
    run = new_run()
    path = run / "results" / "changes.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    seal(run, about={"kind": "measure"})
    with pytest.raises(DamagedFile):
        read_runs([run], KINDS)


def test_runs_of_one_name_are_told_apart(new_run, tmp_path):
    runs = [new_run(name="a/run"), new_run(name="b/run"), new_run(name="other")]
    assert [r.name for r in read_runs(runs, KINDS)] == ["run (1)", "run (2)", "other"]


@pytest.mark.parametrize("count", [0, 9])
def test_a_figure_must_be_able_to_tell_the_runs_apart(new_run, count):
    with pytest.raises(InvalidValue, match=f"expected 1 to 8 runs.*got {count}"):
        read_runs([new_run()] * count, KINDS)


def test_of_several_evaluations_the_largest_is_shown(training):
    evaluation(training, "aa", 512.0)
    evaluation(training, "bb", 64.0)
    (run,) = read_runs([training], KINDS)
    assert run.tables.evaluation["responses"].tolist() == [512.0]


def test_metrics_without_steps_are_refused(training):
    write_metrics(training / "metrics.parquet", {"loss": np.array([1.0])})
    with pytest.raises(InvalidValue, match="training with logged steps, got none"):
        read_runs([training], KINDS)


def test_settings_and_facts_may_be_absent(new_run):
    run = new_run()
    (run / "config.json").unlink()
    (run / "about.json").unlink()
    seal(run, about={"kind": "measure"})
    (read,) = read_runs([run], KINDS)
    assert read.config == read.about == {}
    assert json.loads((run / "summary.json").read_text())["title"] == read.title


@pytest.mark.parametrize(
    ("tables", "kind"),
    [
        (influence(Influence(checkpoints=("a",), responses=2)), "influence"),
        (kernel(Kernel(checkpoints=("a",), responses=2)), "kernel"),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_a_run_is_known_by_its_manifest_or_if_unsealed_by_its_tables(
    new_run, tables, kind, sealed
):
    path = new_run(tables)
    if not sealed:
        (path / "manifest.json").unlink()
    (run,) = read_runs([path], KINDS)
    assert run.kind == kind
    assert repr(run.tables) == repr(tables)


def test_the_manifest_says_what_an_unfinished_measurement_is(new_run):
    run = new_run(kernel(Kernel(checkpoints=("a",), responses=2)))
    for path in (run / "results").iterdir():
        path.unlink()
    seal(run, about={"kind": "kernel"})
    with pytest.raises(InvalidValue, match=r"without results/blocks\.parquet; finish"):
        read_runs([run], KINDS)


def test_an_unfinished_measurement_of_influence_is_refused(new_run):
    run = new_run(influence(Influence(checkpoints=("a",), responses=2)))
    (run / "results" / "tokens.parquet").unlink()
    with pytest.raises(InvalidValue, match=r"tokens\.parquet; finish it with --resume"):
        read_runs([run], KINDS)


@pytest.mark.parametrize("kind", ["later", None])
def test_a_run_of_an_unknown_kind_is_refused_with_the_known_ones(new_run, kind):
    run = new_run()
    seal(run, about={"kind": kind})
    names = r"measure, influence, kernel, compare, training, got "
    with pytest.raises(InvalidValue, match=names + repr(kind)):
        read_runs([run], KINDS)


def test_unsealed_tables_of_no_kind_are_refused(new_run):
    run = new_run()
    (run / "manifest.json").unlink()
    with pytest.raises(InvalidValue, match="expected a run of kind influence,"):
        read_runs([run], {"influence": KINDS["influence"]})
