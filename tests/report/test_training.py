import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from entrometer.report import draw_training

STEPS = np.arange(1.0, 9.0)


@pytest.fixture
def metrics():
    return {
        "step": STEPS,
        "entropy/token": 0.4 - 0.02 * STEPS,
        "entropy/token_se": np.full(8, 0.02),
        "rewards/answer/mean": 0.3 + 0.05 * STEPS,
        "frac_reward_zero_std": np.full(8, 0.25),
        "noise_scale/B_simple": np.array([np.nan, -1.0, *range(10, 70, 10)]),
        "noise_scale/B_simple_se": np.full(8, 5.0),
    }


@pytest.fixture
def evaluation():
    table = {"step": np.array([0.0, 8.0])}
    for name, values in {"pass_at_1": (0.3, 0.5), "pass_at_8": (0.7, 0.8)}.items():
        table[name] = np.array(values)
        table[f"{name}_low"] = table[name] - 0.1
        table[f"{name}_high"] = table[name] + 0.1
    return table


def words(path):
    return " ".join(ET.parse(path).getroot().itertext())


def test_figure_has_titles_units_and_legends(tmp_path, metrics, evaluation):
    path = tmp_path / "training.svg"
    draw_training(path, metrics, evaluation)
    text = words(path)
    for word in (
        "pass@1",
        "pass@8",
        "nats per token",
        "prompt groups",
        "optimizer step",
    ):
        assert word in text


def test_what_was_not_measured_is_said(tmp_path, metrics):
    path = tmp_path / "training.svg"
    bare = {n: x for n, x in metrics.items() if not n.startswith("noise")}
    draw_training(path, bare, None)
    assert "not evaluated" in words(path)
    assert "not measured" in words(path)


def test_noise_scale_without_signal_is_no_line(tmp_path, metrics):
    path = tmp_path / "training.svg"
    metrics["noise_scale/B_simple"] = np.full(8, np.nan)
    draw_training(path, metrics, None)
    assert "no signal above noise" in words(path)


def test_same_tables_give_the_same_bytes(tmp_path, metrics, evaluation):
    first, second = tmp_path / "1.svg", tmp_path / "2.svg"
    draw_training(first, metrics, evaluation)
    draw_training(second, metrics, evaluation)
    assert first.read_bytes() == second.read_bytes()
    assert not re.search(rb"<dc:date>", first.read_bytes())


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_papers_get_their_formats(tmp_path, metrics, evaluation, suffix):
    path = tmp_path / f"training.{suffix}"
    draw_training(path, metrics, evaluation)
    assert path.stat().st_size > 1000


def test_report_needs_no_torch():
    code = "import entrometer.report, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
