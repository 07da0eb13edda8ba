"""Settings, refusals and what is printed of `entrometer measure`."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from entrometer import read
from entrometer.api import result
from entrometer.cli import main
from entrometer.errors import InvalidValue
from entrometer.experiments.requests import Worker
from entrometer.runs import seal, verify
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.measure import MeasureTables
from entrometer.training.config import save_config
from tests.cli.conftest import CONFIG, SMALL, at, strictly


def printed_config(capsys, *arguments):
    assert main(["measure", *arguments, "--print-config"]) == 0
    return strictly(capsys.readouterr().out)


def refusal(capsys, *arguments):
    assert main(["measure", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def test_defaults_are_the_trainings(trained, capsys):
    config = printed_config(capsys, *at(trained, 2))
    for name in ("task", "level", "policy", "problems", "temperature", "max_tokens"):
        assert config[name] == getattr(CONFIG, name)
    assert config["max_grad_norm"] == 0.5
    assert config["prompts"] == 256


def test_settings_override_the_trainings(trained, capsys):
    config = printed_config(
        capsys, *at(trained, 2), "--max-tokens", "5", "--etas", "1e-5", "2e-5"
    )
    assert (config["max_tokens"], config["etas"]) == (5, [1e-5, 2e-5])
    assert config["temperature"] == 0.8


def test_without_the_trainings_config_the_task_must_be_named(trained, tmp_path, capsys):
    shutil.copytree(trained / "checkpoint-2", tmp_path / "checkpoint-2")
    assert "expected --task" in refusal(capsys, *at(tmp_path, 2))
    given = [*at(tmp_path, 2), "--task", "few-letters"]
    assert "expected --max-tokens" in refusal(capsys, *given)
    config = printed_config(capsys, *given, "--max-tokens", "9")
    assert (config["task"], config["max_tokens"]) == ("few-letters", 9)


def test_checkpoints_of_unlike_trainings_are_refused(trained, tmp_path, capsys):
    shutil.copytree(trained / "checkpoint-2", tmp_path / "checkpoint-2")
    save_config(replace(CONFIG, max_tokens=7), tmp_path)
    error = refusal(capsys, *at(trained, 2), *at(tmp_path, 2))
    assert "max_tokens=6" in error
    assert "measure them separately" in error


def test_a_checkpoint_that_is_not_there_is_told_the_nearest(trained, capsys):
    error = refusal(capsys, *at(trained, 22))
    assert "name one that exists. Did you mean 'checkpoint-2'?" in error


@pytest.mark.parametrize("others", [[], ["--run", "new"], ["--resume"]])
def test_no_checkpoint_at_all_is_refused(capsys, others):
    assert "expected at least one checkpoint, got none" in refusal(capsys, *others)


@pytest.mark.parametrize(
    "flag", ["--address auto", "--workers 2", "--worker-cpus 2", "--worker-gpus 1"]
)
def test_settings_of_ray_are_not_passed_over(trained, tmp_path, capsys, flag):
    run = ["--run", str(tmp_path / "run")]
    error = refusal(capsys, *at(trained, 2), *run, *flag.split())
    assert f"expected {flag.split()[0]} with --engine ray" in error


def test_a_run_that_is_there_is_not_overwritten(trained, measured, capsys):
    error = refusal(capsys, *at(trained, 2), "--run", str(measured), *SMALL)
    assert "resume it with --resume, or choose another directory" in error


def test_no_recorded_update_says_what_to_do_and_leaves_the_place_free(
    trained, tmp_path, capsys
):
    run = ["--run", str(tmp_path / "run")]
    error = refusal(capsys, *at(trained, 3), *run)
    assert "give --updates sampled-1" in error
    # The same command, corrected, is not told that the directory is taken.
    assert "sampled-1" in refusal(capsys, *at(trained, 3), *run)


def test_a_schedule_that_ended_needs_learning_rates(trained, tmp_path, capsys):
    run = tmp_path / "ended"
    shutil.copytree(trained, run)
    path = run / "checkpoint-2" / "optimizer.pt"
    state = torch.load(path, weights_only=True)
    for group in state["param_groups"]:
        group["lr"] = 0.0
    torch.save(state, path)
    seal(path.parent)
    error = refusal(capsys, *at(run, 2), "--run", str(tmp_path / "run"))
    assert "schedule has ended; give --etas" in error


def test_no_control_character_of_a_file_is_printed(trained, tmp_path, capsys):
    shutil.copytree(trained / "checkpoint-2", tmp_path / "checkpoint-2")
    save_config(replace(CONFIG, task="toy\x1b[2J\x9b"), tmp_path)
    error = refusal(capsys, *at(tmp_path, 2), "--run", str(tmp_path / "run"))
    assert "toy" in error
    assert all(c.isprintable() for c in error.rstrip("\n"))


def test_resume_goes_on_with_the_saved_settings(trained, measured, capsys):
    saved = json.loads((measured / "config.json").read_bytes())
    assert [(measured / path).resolve() for path in saved["checkpoints"]] == [
        (trained / "checkpoint-2").resolve()
    ]
    saved["checkpoints"] = at(trained.resolve(), 2)
    resumed = ["--run", str(measured), "--resume"]
    assert printed_config(capsys, *resumed) == saved
    other = printed_config(capsys, *resumed, "--etas", "1e-5")
    assert other == saved | {"etas": [1e-5]}


def test_resume_of_what_was_stopped_at_once_begins_anew(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run")]
    new = printed_config(capsys, *at(trained, 2), *run, *SMALL)
    assert printed_config(capsys, *at(trained, 2), *run, *SMALL, "--resume") == new


def test_resume_of_what_is_no_measurement_is_refused(trained, tmp_path, capsys):
    for run, said in (
        (trained, "settings of `entrometer measure`"),
        (tmp_path, "no such file"),
    ):
        assert said in refusal(capsys, "--run", str(run), "--resume")


def test_resume_computes_only_what_is_missing(measured, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(measured, run)
    done = []
    policy = Worker.policy

    def spy(self, subject):
        done.append(subject)
        return policy(self, subject)

    monkeypatch.setattr(Worker, "policy", spy)
    arguments = ["measure", "--run", str(run), "--resume", "--no-report", "--json"]
    assert main([*arguments, "--etas", "1e-2", "1e-5"]) == 0
    # The training's own learning rate is among the four that were measured.
    assert len(done) == 2
    assert json.loads((run / "about.json").read_bytes())["stages"].keys() == {"forward"}
    found = strictly(capsys.readouterr().out)
    assert [row["eta"] for row in found["changes"]] == [1e-5, 1e-2]
    assert found["report"] is None
    assert not (run / "report.html").exists()
    verify(run)


def test_a_model_is_loaded_within_eight_frames_of_main(trained, tmp_path, monkeypatch):
    """Whoever follows the calls from the command line to the model is soon there."""
    frames = []

    def load(*_, **__):
        frame = sys._getframe(1)
        while frame is not None:
            # Without the checks of types, which only tests wrap around functions.
            if "entrometer" in Path(frame.f_code.co_filename).parts:
                frames.append(frame.f_code.co_name)
            frame = frame.f_back
        raise InvalidValue("seen")

    monkeypatch.setattr("entrometer.experiments.requests.request.load_checkpoint", load)
    run = ["--run", str(tmp_path / "run"), "--no-report"]
    assert main(["measure", *at(trained, 2), *SMALL, *run]) == 2
    assert frames.index("main") <= 8, frames


def test_passes_of_another_store_are_found(trained, measured, tmp_path, monkeypatch):
    monkeypatch.setattr(Worker, "policy", None)
    arguments = ["measure", "--run", str(tmp_path / "run"), "--no-report"]
    store = ["--store", str(measured / "passes")]
    assert main([*arguments, *at(trained, 2), *SMALL, *store]) == 0
    new, old = (read_tables(run, MeasureTables) for run in (tmp_path / "run", measured))
    # As text, in which NaN equals NaN.
    assert repr(new) == repr(old)


def test_text_has_sentences_rows_warnings_and_the_report(measured):
    text = read(measured).text(measured / "report.html")
    summary = json.loads((measured / "summary.json").read_bytes())
    assert all(sentence in text for sentence in summary["sentences"])
    assert text.count("checkpoint-2  recorded") == 4
    assert text.count("\nwarning: ") == len(summary["warnings"])
    assert text.endswith(f"report: {measured / 'report.html'}")
    assert (measured / "report.html").is_file()


def test_missing_report_packages_do_not_cost_the_results(measured, monkeypatch, capsys):
    monkeypatch.setattr(result, "find_spec", lambda name: None)
    assert read(measured).report() is None
    assert "pip install 'entrometer[report]'" in capsys.readouterr().err


@pytest.mark.usefixtures("timed_once")
def test_dry_run_tells_the_plan_and_writes_nothing(trained, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["measure", *at(trained, 2), "--run", str(run), *SMALL]
    assert main([*arguments, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^forward after step +8 +0 +48 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^jvp2 +1 +0 +8 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^time: about \d:\d\d, from timing", text, re.MULTILINE)
    assert "GPU-hours: 0 on cpu" in text
    assert "memory: roughly" in text
    assert not run.exists()


def test_dry_run_of_what_is_done_times_nothing(measured, capsys, monkeypatch):
    monkeypatch.setattr(Worker, "policy", None)
    arguments = ["measure", "--run", str(measured), "--resume", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert all(s["done"] == s["passes"] > 0 for s in told["stages"].values())
    assert sum(s["seconds"] for s in told["stages"].values()) == 0
    assert told["seconds"] > 0


def test_a4_a_learning_rate_beyond_all_numbers_is_named(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), "--etas", "1e30", *SMALL]
    assert main(["measure", *at(trained, 2), *run]) == 0
    printed = capsys.readouterr().out
    assert "the change of entropy is undefined" in printed
    assert "warning: checkpoint-2, recorded: at the learning rates 1e+30" in printed
    assert "changes by +nan" not in printed
