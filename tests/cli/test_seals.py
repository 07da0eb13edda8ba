"""Every verb compares what it reads with its manifest, and says where there is none."""

import json
import shutil

import pytest

import entrometer as em
from entrometer.cli import main
from entrometer.runs import IncompleteDirectory, update_path
from tests.cli.conftest import SMALL, at, strictly

EXPERIMENTS = ("measure", "influence", "kernel", "compare")


@pytest.fixture
def training(trained, tmp_path):
    run = tmp_path / "training"
    shutil.copytree(trained, run)
    return run


@pytest.fixture
def finished(measured, tmp_path):
    run = tmp_path / "finished"
    shutil.copytree(measured, run)
    return run


def refusal(capsys, *arguments):
    assert main([str(x) for x in arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def flip(path, count):
    content = bytearray(path.read_bytes())
    middle = (len(content) - count) // 2
    for place in range(middle, middle + count):
        content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("verb", EXPERIMENTS)
@pytest.mark.parametrize("name", ["optimizer.pt", "adapter_model.safetensors"])
def test_seals_flipped_bytes_of_a_checkpoint_are_refused(
    training, tmp_path, capsys, verb, name
):
    flip(training / "checkpoint-2" / name, 3000)
    run = tmp_path / "new"
    error = refusal(capsys, verb, *at(training, 2), "--run", run)
    assert f"the content of {name} is not what was written" in error
    assert not (run / "config.json").exists()


@pytest.mark.parametrize("verb", EXPERIMENTS)
def test_seals_the_update_of_another_step_is_refused_by_its_manifest(
    training, tmp_path, capsys, verb
):
    shutil.copy(update_path(training, 2), update_path(training, 3))
    error = refusal(capsys, verb, *at(training, 2), "--run", tmp_path / "new")
    assert "step-00000003.parquet" in error
    assert "checkpoint-3" in error


def test_seals_the_update_of_another_step_is_refused_by_what_it_says(
    training, tmp_path, capsys
):
    """Without any manifest: the file itself has its step."""
    for manifest in training.rglob("manifest.json"):
        manifest.unlink()
    shutil.copy(update_path(training, 2), update_path(training, 3))
    error = refusal(capsys, "measure", *at(training, 2), "--run", tmp_path / "new")
    assert "step-00000003.parquet: expected the batch of step 3" in error
    assert "got the batch of step 2" in error


def test_seals_a_checkpoint_is_compared_before_it_is_loaded(training):
    flip(training / "checkpoint-2" / "optimizer.pt", 1)
    with pytest.raises(IncompleteDirectory, match=r"optimizer\.pt"):
        em.load(training / "checkpoint-2")


def test_seals_an_edited_summary_is_neither_printed_nor_reported(finished, capsys):
    found = em.read(finished)
    path = finished / "summary.json"
    summary = json.loads(path.read_bytes())
    summary["sentences"] = ["Entropy rises by +9.99."]
    path.write_text(json.dumps(summary, indent=1))
    for read in (str, em.Result.frame, type(found)._repr_html_, em.Result.report):
        with pytest.raises(IncompleteDirectory, match=r"summary\.json"):
            read(found)
    assert "summary.json" in refusal(capsys, "report", finished)
    assert "summary.json" in refusal(capsys, "replay", finished)


@pytest.mark.parametrize("name", ["results/terms.parquet", "about.json", "config.json"])
def test_seals_every_file_of_a_finished_run_is_compared(finished, capsys, name):
    flip(finished / name, 1)
    for verb in ("report", "replay"):
        assert name in refusal(capsys, verb, finished)


def test_seals_the_settings_of_a_training_are_compared(training, tmp_path, capsys):
    path = training / "config.json"
    path.write_text(path.read_text().replace('"temperature": 0.8', '"temperature": 2'))
    said = "config.json: temperature was 0.8 when the run started, is 2 now"
    run = tmp_path / "new"
    assert said in refusal(capsys, "measure", *at(training, 2), "--run", run)
    assert said in refusal(capsys, "eval", training)
    assert said in refusal(capsys, "replay", training)


def test_seals_a_pass_is_compared_before_it_is_reused(finished, capsys):
    path = next((finished / "passes").glob("forward-*.parquet"))
    flip(path, 1)
    error = refusal(capsys, "measure", "--run", finished, "--resume", *SMALL)
    assert path.name in error
    assert "delete the file" in error
    path.unlink()
    assert main(["measure", "--run", str(finished), "--resume", "--no-report"]) == 0


def test_seals_what_has_no_manifest_is_called_unsealed(training, tmp_path, capsys):
    """As a checkpoint of TRL: it is measured, and every output says so."""
    for manifest in training.rglob("manifest.json"):
        manifest.unlink()
    run = tmp_path / "new"
    arguments = ["measure", *at(training, 2), "--run", str(run), *SMALL, "--json"]
    assert main(arguments) == 0
    found = strictly(capsys.readouterr().out)
    expected = ["checkpoint-2", "training/config.json", "updates/step-00000003.parquet"]
    assert found["unsealed"] == expected
    for name in expected:
        said = f"Unsealed: no manifest.json lists {name}, so changes to it cannot"
        said += " be detected."
        assert said in found["warnings"]
        assert said in str(em.read(run))
        assert said in (run / "report.html").read_text(encoding="utf-8")


def test_seals_a_report_of_unsealed_results_says_so(finished, capsys):
    (finished / "manifest.json").unlink()
    assert main(["report", str(finished), "--json"]) == 0
    assert strictly(capsys.readouterr().out)["unsealed"] == {
        str(finished): ["the results"]
    }
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "Unsealed: no manifest.json lists the results," in page


def test_seals_a_training_with_a_damaged_newest_checkpoint_is_not_reported_shorter(
    training, capsys
):
    flip(training / "checkpoint-3" / "trainer_state.json", 1)
    assert "trainer_state.json" in refusal(capsys, "report", training)
