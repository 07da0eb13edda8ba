"""The recipe is what its page says, and its script asks for it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from entrometer.cli import main
from entrometer.recipes import qwen25_gsm8k
from entrometer.recipes.qwen25_gsm8k import (
    comparison,
    evaluation,
    influences,
    kernels,
    measurement,
)
from entrometer.training.config import save_config
from entrometer.training.run import accumulation_steps

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes/qwen25_gsm8k"
PROBLEMS = ROOT / "tests/tasks/data/gsm8k-style.jsonl"
STUDIES = {
    "measure": measurement,
    "influence": influences,
    "kernel": kernels,
    "compare": comparison,
}

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def problems(folder, *, times=1):
    for split in ("train", "test"):
        text = PROBLEMS.read_text(encoding="utf-8")
        (folder / f"{split}.jsonl").write_text(text * times, encoding="utf-8")
    return str(folder)


def script(**settings):
    command = [str(shutil.which("bash")), str(RECIPE / "run.sh")]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | settings)


def test_the_numbers_are_those_of_the_page():
    config = qwen25_gsm8k()
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    numbers = {
        "model": config.policy,
        "adapter": f"rank {config.adapter.rank}, alpha {config.adapter.alpha}, on "
        + ", ".join(f"`{name}`" for name in config.adapter.modules),
        "update": f"{config.prompts} prompts x {config.responses} responses",
        "learning rate": f"{config.learning_rate}, constant; weight decay "
        f"{config.weight_decay}, gradients clipped to {config.max_grad_norm}",
        "sampling": f"temperature {config.temperature}, {config.max_tokens} tokens",
        "steps": f"{config.steps}, a checkpoint every {config.save_every}",
        "reward": f"the verified answer, and {config.format_weight} for the format",
        "imitation": f"{config.imitation.steps} steps of {config.imitation.batch} "
        f"demonstrations, learning rate {config.imitation.learning_rate}",
        "problems": f"{config.problems:,}",
    }
    for name, value in numbers.items():
        assert f"| {name} | {value} |" in page


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_an_update_can_be_shared_by_so_many_processes(processes):
    config = qwen25_gsm8k()
    steps = accumulation_steps(
        prompts=config.prompts,
        responses=config.responses,
        micro_batch=config.micro_batch,
        processes=processes,
    )
    assert steps * processes * config.micro_batch == 2048
    assert config.imitation.batch % processes == 0


def test_a_dry_run_with_the_tiny_policy_in_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ENTROMETER_GSM8K", problems(tmp_path, times=2))
    small = ["--policy", "tiny", "--problems", "24", "--prompts", "16"]
    command = ["train", "--recipe", "qwen25-gsm8k", *small, "--max-tokens", "4"]
    assert main([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "imitation: 467 updates of 16 demonstrations\n" in told
    assert "Dr-GRPO: 64 updates of 16 prompts x 8 responses; 8192 responses" in told
    assert "time: roughly " in told


def test_evaluation_is_at_the_temperature_and_the_length_of_the_training():
    trained, config = qwen25_gsm8k(), evaluation(Path("run"))
    assert (config.temperature, config.max_tokens) == (
        trained.temperature,
        trained.max_tokens,
    )
    assert config.problems == 0


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Where the script would work, and the commands that it gives there."""
    folder = tmp_path_factory.mktemp("said")
    heard, python = folder / "heard", folder / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        f"with open({str(heard)!r}, 'a') as file:\n"
        "    print(json.dumps(sys.argv[1:]), file=file)\n"
    )
    python.chmod(0o755)
    runs = folder / "runs"
    script(PYTHON=str(python), RUNS=str(runs))
    commands = [json.loads(line) for line in heard.read_text().splitlines()]
    return runs, commands


def verb(commands, name):
    """What a verb is given."""
    (found,) = [c[c.index(name) + 1 :] for c in commands if name in c]
    return found


@needs_bash
def test_the_script_trains_by_the_recipe_in_two_processes(said, capsys):
    _, commands = said
    assert commands[0][:2] == ["-m", "torch.distributed.run"]
    assert commands[0][commands[0].index("--nproc-per-node") + 1] == "2"
    assert main(["train", *verb(commands, "train"), "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(asdict(qwen25_gsm8k())))


@needs_bash
@pytest.mark.parametrize("name", STUDIES)
def test_the_script_asks_for_what_the_recipe_says(name, said, capsys):
    runs, commands = said
    config = STUDIES[name](runs / "train")
    save_config(qwen25_gsm8k(), runs / "train")
    for path in config.checkpoints:
        Path(path).mkdir(exist_ok=True)
        (Path(path) / "config.json").write_text("{}")
    assert main([name, *verb(commands, name), "--print-config"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(asdict(config)))


@needs_bash
def test_a_training_that_was_begun_is_gone_on_with(said, tmp_path):
    _, commands = said
    heard = Path(tmp_path / "heard")
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "config.json").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$*" >> {heard}\n')
    python.chmod(0o755)
    script(PYTHON=str(python), RUNS=str(tmp_path))
    first = heard.read_text().splitlines()[0]
    assert f" train --resume {tmp_path}/train --policy {qwen25_gsm8k().policy}" in first
    assert "--resume" not in verb(commands, "train")


@needs_bash
@pytest.mark.slow
def test_the_whole_chain_with_the_tiny_policy_in_its_place(tmp_path):
    runs = tmp_path / "runs"
    data = tmp_path / "data"
    data.mkdir()
    script(
        MODEL="tiny",
        RUNS=str(runs),
        PYTHON=sys.executable,
        ENTROMETER_GSM8K=problems(data),
    )
    for name in STUDIES:
        assert (runs / name / "manifest.json").is_file()
    assert (runs / "train" / "checkpoint-2" / "manifest.json").is_file()
    assert "5 runs compared" in (runs / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_times_and_memory_of_the_page_are_what_the_command_prints():
    command = [sys.executable, "-m", "recipes.qwen25_gsm8k.cost"]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    tables = done.stdout.strip().split("\n\n")
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert len(tables) == 3
    for table in tables:
        assert table in page
