"""The files that start a cluster are what their tools and our parser read."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from entrometer.cli.experiment_verb import command_of
from entrometer.cli.flags import parse
from entrometer.experiments.measure import MEASURE

CLUSTER = Path(__file__).parents[2] / "examples/cluster"
TASK = yaml.safe_load((CLUSTER / "skypilot.yaml").read_text())
SCRIPTS = {
    "skypilot.yaml": TASK["run"],
    "measure.sbatch": (CLUSTER / "measure.sbatch").read_text(),
}


def command(script):
    """The arguments of `entrometer measure`, with variables for values."""
    joined = script.replace("\\\n", " ")
    (line,) = re.findall(r"^\s*(entrometer measure .*)$", joined, re.MULTILINE)
    return shlex.split(line)[2:]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_command_is_one_that_the_parser_takes(name):
    asked = parse(command_of(MEASURE), command(SCRIPTS[name]), verb="measure")
    assert (asked.engine, asked.device, asked.worker_gpus) == ("ray", "cuda", 1)
    assert asked.address
    assert asked.resume
    assert len(asked.checkpoints) == 1


@pytest.mark.parametrize("name", SCRIPTS)
def test_store_and_run_lie_on_what_all_nodes_share(name):
    asked = parse(command_of(MEASURE), command(SCRIPTS[name]), verb="measure")
    for path in (asked.store, asked.run):
        known = TASK["envs"].get(str(path).lstrip("$"), str(path))
        assert known.startswith(("/shared/", "$SHARED/"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_bash_reads_the_script(name):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    done = subprocess.run([bash, "-n"], input=SCRIPTS[name], text=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_start_makes_a_token_of_its_own(name):
    """Ray runs code for whoever reaches its port."""
    assert "RAY_AUTH_MODE=token" in SCRIPTS[name]
    assert "secrets.token_hex" in SCRIPTS[name]
    assert "umask 077" in SCRIPTS[name]


def test_the_volume_is_the_one_that_the_task_mounts():
    volume = yaml.safe_load((CLUSTER / "skypilot_volume.yaml").read_text())
    assert TASK["volumes"] == {"/shared": volume["name"]}
    assert volume["config"]["access_mode"] == "ReadWriteMany"
