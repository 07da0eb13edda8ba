import json
import resource
import subprocess
import sys
from dataclasses import asdict

import pytest

from entrometer.cli import VERBS, main
from entrometer.recipes import RECIPES, recipe
from entrometer.training.config import TrainConfig, read_config, save_config


def test_help_names_every_verb(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {verb} " in printed for verb in VERBS)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_takes_a_second_of_computing_and_no_torch(verb):
    code = (
        "import sys; from entrometer.cli import main\n"
        f"try: main({[verb, '--help'] if verb else ['--help']!r})\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'trl' not in sys.modules"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


def test_mistyped_verb_is_told_the_nearest(capsys):
    assert main(["trian"]) == 2
    error = capsys.readouterr().err
    assert "Did you mean 'train'?" in error
    assert error.count("\n") == 1


def test_mistyped_setting_is_told_the_nearest(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--run", "x", "--lerning-rate", "1"])
    assert stopped.value.code == 2
    assert "--learning-rate" in capsys.readouterr().err


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


def test_dry_run_of_training_tells_the_work_and_does_none(tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["train", "--recipe", "reference", "--run", str(run), "--dry-run"]
    assert main(arguments) == 0
    assert "4096 responses to sample" in capsys.readouterr().out
    assert not run.exists()


def test_resume_has_the_settings_of_the_run_and_more_steps(tmp_path, capsys):
    save_config(TrainConfig(seed=3, steps=10), tmp_path)
    arguments = ["train", "--resume", str(tmp_path), "--additional-steps", "5"]
    assert main([*arguments, "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["seed"], printed["steps"]) == (3, 15)
    assert read_config(tmp_path).steps == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train"], "expected --run DIRECTORY or --resume DIRECTORY"),
        (["train", "--run", "a", "--resume", "b"], "leave one out"),
        (["train", "--run", "a", "--additional-steps", "1"], "--resume"),
        (["train", "--resume", "nowhere"], "is not a training run"),
        (["eval", "nowhere"], "is not a training run"),
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


def test_eval_of_a_run_without_checkpoints_says_so(tmp_path, capsys):
    save_config(TrainConfig(), tmp_path)
    assert main(["eval", str(tmp_path)]) == 2
    assert "train it first" in capsys.readouterr().err
