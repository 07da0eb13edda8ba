import json
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import asdict

import pytest

from entrometer.cli import VERBS, main
from entrometer.experiments.experiment import experiment_names
from entrometer.recipes import RECIPES, recipe
from entrometer.training.config import TrainConfig, read_config, save_config
from tests.cli.conftest import CONFIG, strictly


def test_help_names_every_verb(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {verb} " in printed for verb in [*VERBS, *experiment_names()])


PARTS = "import numpy, pyarrow.parquet, jaxtyping, tyro"
"""What a verb's settings and tables stand on."""


@pytest.mark.parametrize("verb", ["", *VERBS, *experiment_names()])
def test_help_takes_little_more_than_its_parts_and_no_torch(verb):
    code = (
        "import sys; from entrometer.cli import main\n"
        f"try: main({[verb, '--help'] if verb else ['--help']!r})\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'trl' not in sys.modules"
    )
    # The least of six, in turn: a slow machine lengthens both.
    tries = [(_processor_seconds(code), _processor_seconds(PARTS)) for _ in range(6)]
    own, parts = map(min, zip(*tries, strict=True))
    # In units of the parts, not in seconds: machines differ.
    assert own < (2 if verb else 1.5) * parts


def _processor_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_mistyped_verb_is_told_the_nearest(capsys):
    assert main(["trian"]) == 2
    error = capsys.readouterr().err
    assert "Did you mean 'train'?" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["train", "--run", "x", "--lerning-rate", "1"], "--learning-rate"),
        (["train", "--run", "x", "--imitation.stesp", "1"], "--imitation.steps"),
        (["eval", "x", "--porblems", "3"], "--problems"),
        (["measure", "x", "--prompst", "3"], "--prompts"),
        (["influence", "x", "--flods", "3"], "--folds"),
        (["report", "x", "--figrues", "y"], "--figures"),
        (["replay", "x", "--rnu", "y"], "--run"),
        (["demo", "--sede", "y"], "--seed"),
    ],
)
def test_mistyped_setting_is_told_the_nearest(arguments, near, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert f"Did you mean '{near}'?" in error
    assert error.count("\n") == 1


def test_mistyped_recipe_is_told_the_nearest(capsys):
    assert main(["train", "--recipe", "referense", "--run", "x"]) == 2
    assert "Did you mean 'reference'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_is_the_config_that_is_printed(name, capsys):
    assert main(["train", "--recipe", name, "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(asdict(recipe(name))))


def test_setting_overrides_the_recipe(capsys):
    main(["train", "--recipe", "reference", "--seed", "7", "--print-config"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["seed"], printed["policy"]) == (7, "smollm2")


def test_the_intervention_of_a_training_is_a_setting(capsys):
    arguments = ["train", "--intervention", "clip-cov:rho=0.002", "--print-config"]
    assert main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["intervention"] == "clip-cov:rho=0.002"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clip-cvo", "Did you mean 'clip-cov'?"),
        ("clip-cov:roh=1", "Did you mean 'rho'?"),
        ("frontier", "needs the table 'influence'"),
    ],
)
def test_an_intervention_that_cannot_be_trained_is_told(text, said, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--intervention", text, "--run", str(run)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not run.exists()


def test_dry_run_of_training_tells_the_work_and_does_none(tmp_path, capsys):
    run = tmp_path / "run"
    short = ["--task", "few-letters", "--max-tokens", "4", "--predict-every", "2"]
    arguments = ["train", *short, "--run", str(run), "--dry-run"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "4096 responses to sample" in out
    assert re.search(r"^time: roughly \d+:\d\d", out, re.MULTILINE)
    assert main([*arguments, "--json"]) == 0
    assert strictly(capsys.readouterr().out)["seconds"] > 0
    assert not run.exists()


def test_dry_run_without_the_policy_still_tells_the_work(tmp_path, capsys):
    assert main(["train", "--policy", str(tmp_path / "nowhere"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "4096 responses to sample" in out
    assert "time: not known: " in out


def test_dry_run_of_a_resumed_training_tells_what_is_left(trained, capsys):
    arguments = ["train", "--run", str(trained), "--resume", "--additional-steps", "2"]
    assert main([*arguments, "--dry-run", "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert (told["imitation_steps"], told["steps"]) == (0, 2)
    assert read_config(trained).steps == CONFIG.steps


def test_resume_has_the_settings_of_the_run_and_more_steps(tmp_path, capsys):
    save_config(TrainConfig(seed=3, steps=10), tmp_path)
    arguments = ["train", "--resume", str(tmp_path), "--additional-steps", "5"]
    assert main([*arguments, "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["seed"], printed["steps"]) == (3, 15)
    assert read_config(tmp_path).steps == 10


def test_the_same_command_with_resume_goes_on(tmp_path, capsys):
    first = ["train", "--run", str(tmp_path), "--seed", "3", "--print-config"]
    save_config(TrainConfig(seed=3), tmp_path)
    assert main([*first, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 3
    assert main([*first, "--resume", "--learning-rate", "1"]) == 2
    assert "expected learning_rate=1e-05" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train"], "expected --run DIRECTORY or --resume DIRECTORY"),
        (["train", "--run", "a", "--resume", "b"], "leave one out"),
        (["train", "--run", "a", "--additional-steps", "1"], "--resume"),
        (["train", "--resume", "nowhere"], "is not a training run"),
        (["train", "--resume"], "expected --run DIRECTORY or --resume DIRECTORY"),
        (["eval", "nowhere"], "expected a checkpoint in nowhere"),
        (["eval"], "expected at least one checkpoint"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_2(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_new_run_does_not_write_into_an_old_one(tmp_path, capsys):
    save_config(TrainConfig(), tmp_path)
    assert main(["train", "--run", str(tmp_path)]) == 2
    assert "holds a run already" in capsys.readouterr().err


EVALUATION = ["--problems", "3", "--responses", "2", "--ks", "1"]


def test_eval_has_the_temperature_and_length_of_the_training(trained, capsys):
    arguments = ["eval", str(trained), *EVALUATION, "--print-config"]
    assert main([*arguments, "--max-tokens", "5"]) == 0
    config = strictly(capsys.readouterr().out)
    expected = {"temperature": 0.8, "max_tokens": 5, "problems": 3, "split": "test"}
    assert config == config | expected


def test_eval_tells_what_is_left_and_then_does_it(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    arguments = ["eval", str(run), *EVALUATION, "--json"]
    assert main([*arguments, "--dry-run"]) == 0
    stage = strictly(capsys.readouterr().out)["stages"]["rollouts"]
    assert (stage["passes"], stage["responses"], stage["done"]) == (4, 24, 0)
    assert stage["seconds"] > 0
    assert not (run / "evaluation").exists()
    assert main(arguments) == 0
    rows = strictly(capsys.readouterr().out)["results"]
    assert list(dict.fromkeys(row["step"] for row in rows)) == [0, 1, 2, 3]
    assert main([*arguments, "--dry-run"]) == 0
    stages = strictly(capsys.readouterr().out)["stages"].values()
    assert all(s["done"] == s["passes"] and s["seconds"] == 0 for s in stages)


def test_an_evaluation_becomes_logs_of_inspect(trained, tmp_path, capsys):
    pytest.importorskip("inspect_ai")
    run, logs = tmp_path / "run", tmp_path / "logs"
    shutil.copytree(trained, run)
    assert main(["eval", str(run), *EVALUATION, "--no-report", "--json"]) == 0
    evaluated = strictly(capsys.readouterr().out)["run"]
    assert main(["report", evaluated, "--inspect", str(logs)]) == 0
    assert f"inspect: 4 logs in {logs}\n" in capsys.readouterr().out
    assert len(list(logs.glob("checkpoint-*.eval"))) == 4


def test_a_report_without_inspect_installed_says_so(
    measured, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    module = "entrometer.experiments.evaluation.inspect_logs"
    monkeypatch.delitem(sys.modules, module, raising=False)
    arguments = ["report", str(measured), "--out", str(tmp_path / "page.html")]
    assert main([*arguments, "--inspect", str(tmp_path / "logs")]) == 2
    assert "pip install 'entrometer[inspect]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "needed"),
    [
        ("trl", "'entrometer[train]'"),
        ("matplotlib.figure", "'entrometer[report]'"),
        ("torch", "entrometer"),
    ],
)
def test_a_missing_package_is_told_with_its_remedy(
    missing, needed, monkeypatch, capsys
):
    def absent(arguments):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr("entrometer.cli.train.run", absent)
    assert main(["train"]) == 2
    error = capsys.readouterr().err
    assert error.endswith(f"is not installed; pip install {needed}\n")


def test_a_stop_says_how_to_go_on(monkeypatch, capsys):
    def stopped(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("entrometer.cli.train.run", stopped)
    assert main(["train"]) == 130
    assert "resume with the same command and --resume" in capsys.readouterr().err


def test_no_control_character_of_an_error_is_printed(tmp_path, capsys):
    save_config(TrainConfig(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"seed"', '"se\\u001b[2Jed"'))
    assert main(["train", "--resume", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "se" in error
    assert all(c.isprintable() for c in error.rstrip("\n"))


def test_eval_of_a_run_without_checkpoints_says_so(tmp_path, capsys):
    save_config(TrainConfig(), tmp_path)
    assert main(["eval", str(tmp_path)]) == 2
    assert "train it first" in capsys.readouterr().err
