"""`entrometer diagnose`: three experiments on shared passes, and one page."""

import json

import pytest

import entrometer as em
from entrometer.cli import main
from entrometer.engine.manifest import read_log
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.diagnose import DiagnoseTables
from tests.cli.conftest import at, strictly
from tests.training.toy import quietly

FEW = ["--prompts", "16", "--folds", "4", "--shard", "16", "--quick"]
TWO = ["--interventions", "entropy-bonus", "positive-only"]


@pytest.fixture(scope="module")
def diagnosed(trained, tmp_path_factory):
    run = tmp_path_factory.mktemp("diagnosed") / "run"
    with quietly():
        assert main(["diagnose", *at(trained, 2), "--run", str(run), *FEW, *TWO]) == 0
    return run


def test_it_has_the_tables_of_three_experiments_and_the_curve(diagnosed):
    tables = read_tables(diagnosed, DiagnoseTables)
    assert tables.changes
    assert tables.tokens
    assert {o.name for o in tables.outcomes} == {
        *("dr-grpo", "entropy-bonus", "positive-only")
    }
    # The updates up to the one that is measured, each at the policy before it.
    assert [point.step for point in tables.curve] == [0, 1, 2]
    assert all(point.entropy > 0 for point in tables.curve)
    (row,) = tables.signal
    assert row.minibatch == "1/1"


def test_quick_takes_no_step_of_a_remedy(diagnosed):
    outcomes = read_tables(diagnosed, DiagnoseTables).outcomes
    assert not any(o.taken for o in outcomes)
    assert all(o.reference == "as trained" for o in outcomes)


def test_no_pass_is_made_twice(trained, diagnosed, tmp_path):
    """`compare` on the store of a diagnosis finds everything there."""
    store = diagnosed / "passes"
    before = len(read_log(store))
    same = ["--minibatches", "1/1", "--no-truth", "--batches", "1", *FEW[:-1], *TWO]
    run = ["--run", str(tmp_path / "run"), "--store", str(store), "--no-report"]
    with quietly():
        assert main(["compare", *at(trained, 2), *run, *same]) == 0
    assert len(read_log(store)) == before
    ours = read_tables(diagnosed, DiagnoseTables).outcomes
    # As text, because NaN equals nothing.
    assert repr(read_tables(tmp_path / "run", CompareTables).outcomes) == repr(ours)


def test_the_page_begins_with_the_answer(diagnosed):
    page = (diagnosed / "report.html").read_text()
    titles = ["Where it is heading", "What would help", "Which tokens"]
    places = [page.index(f">{title}</h2>") for title in titles]
    assert places == sorted(places)
    assert page.index('class="cards"') < places[0]
    assert "How sure is this" in page


def test_json_and_resume(diagnosed, capsys):
    again = ["diagnose", "--run", str(diagnosed), "--resume", "--no-report", "--json"]
    with quietly():
        assert main(again) == 0
    told = strictly(capsys.readouterr().out)
    assert len(told["curve"]) == 3
    *_, extent, sampler = told["sentences"]
    assert extent.startswith("What is said of `recorded`")
    # The training sampled by itself, so it recorded no engine.
    assert "recorded without the log-probs of the engine" in sampler
    saved = json.loads((diagnosed / "config.json").read_bytes())
    assert saved["quick"] is True


def test_from_python(trained, tmp_path):
    with quietly():
        result = em.diagnose(
            *at(trained, 2),
            run=tmp_path / "run",
            prompts=16,
            folds=4,
            quick=True,
            interventions=["entropy-bonus"],
        )
    assert result.frame("curve")["step"].tolist() == [0, 1, 2]
