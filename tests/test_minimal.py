"""What works where nothing is installed but what reads tables."""

import subprocess
import sys

import pytest

from benchmarks.report.synthetic import measurement, write
from entrometer.cli import VERBS
from tests.report.toy import SMALL, SUMMARY

HEAVY = {
    *("accelerate", "datasets", "deepspeed", "gguf", "huggingface_hub"),
    *("math_verify", "peft", "ray", "reasoning_gym", "safetensors", "tokenizers"),
    *("torch", "transformers", "trl"),
}
DRAWING = {"jinja2", "markupsafe", "matplotlib"}

REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""

ESTIMATE = """
import entrometer, entrometer.report, entrometer.runs
import numpy as np
from entrometer import estimators as em

mask = np.array([[True, True], [True, False], [True, True]])
responses = em.Responses.from_mask(np.arange(3), mask)
S, H = np.full(5, 0.7), np.array([0.1, 0.9, 0.4, 0.2, 0.6])
here, there = em.Tables(S, H), em.Tables(S, H + 0.25)
for weighting in em.Weighting:
    if weighting is em.Weighting.DOUBLY_ROBUST:
        continue
    sums = em.change_statistics(responses, here, there, weighting=weighting)
    print(em.entropy_change(sums).estimate().value)
"""


def without(refused: set[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code where packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", REFUSE.format(refused=refused) + code],
        capture_output=True,
        text=True,
        check=False,
    )


def entrometer(refused: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"from entrometer.cli import main\nsys.exit(main({list(arguments)!r}))"
    return without(refused, code)


@pytest.fixture
def finished(tmp_path):
    """The directory of a finished measurement."""
    return write(tmp_path / "run", measurement(SMALL), SUMMARY, {"seed": 0})


@pytest.mark.parametrize("name", ["torch", "torch.nn", "matplotlib.figure"])
def test_what_is_refused_cannot_be_imported(name):
    done = without(HEAVY | DRAWING, f"import {name}")
    assert (
        f"ModuleNotFoundError: No module named '{name.partition('.')[0]}" in done.stderr
    )


def test_estimators_need_only_numpy_and_scipy():
    done = without(HEAVY, ESTIMATE)
    assert done.returncode == 0, done.stderr
    changes = [float(line) for line in done.stdout.split()]
    assert len(changes) >= 2
    assert changes == pytest.approx([0.25] * len(changes), rel=1e-12)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_every_help_is_told(verb):
    done = entrometer(HEAVY | DRAWING, *filter(None, [verb]), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: entrometer")


def test_a_report_is_written_without_torch(finished):
    done = entrometer(HEAVY, "report", str(finished))
    assert done.returncode == 0, done.stderr
    assert "<svg" in (finished / "report.html").read_text(encoding="utf-8")


def test_a_report_without_matplotlib_names_the_extra(finished):
    done = entrometer(HEAVY | {"matplotlib"}, "report", str(finished))
    assert done.returncode == 2
    assert done.stderr == (
        "entrometer report: needs matplotlib, which is not installed; "
        "pip install 'entrometer[report]'\n"
    )


def test_a_training_without_trl_names_the_extra(tmp_path):
    run = ["--recipe", "tiny-twin", "--run", str(tmp_path / "run")]
    done = entrometer({"trl"}, "train", *run)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "entrometer train: needs trl, which is not installed; "
        "pip install 'entrometer[train]'"
    )


def test_a_measurement_without_torch_names_the_package(tmp_path):
    # What is checked before torch is imported.
    for name in ("config.json", "model.safetensors", "optimizer.pt"):
        (tmp_path / name).write_text("{}")
    done = entrometer(
        HEAVY, "measure", str(tmp_path), "--task", "arithmetic", "--max-tokens", "8"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "entrometer measure: needs torch, which is not installed; "
        "pip install entrometer\n"
    )
