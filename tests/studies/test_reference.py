from pathlib import Path

import numpy as np
import pytest

from entrometer.runs import checkpoints, read_metrics, read_update, update_path, verify
from entrometer.training.config import read_config

HERE = Path(__file__).parents[2] / "studies" / "reference"
KEPT = [8, 24, 40, 56]


def test_four_checkpoints_are_kept_early_to_late():
    assert [step for step, _ in checkpoints(HERE)] == KEPT


@pytest.mark.parametrize("step", KEPT)
def test_checkpoint_is_complete_and_small(step):
    path = HERE / f"checkpoint-{step}"
    verify(path)
    assert sum(p.stat().st_size for p in path.iterdir()) <= 12e6


@pytest.mark.parametrize("step", KEPT)
def test_batch_to_measure_it_with_is_there(step):
    config = read_config(HERE)
    batch = read_update(update_path(HERE, step + 1))
    assert batch.settings.step == step + 1
    assert batch.count == config.prompts * config.responses
    _, sizes = np.unique(batch.group, return_counts=True)
    assert set(sizes) == {config.responses}


def test_the_run_met_what_was_asked_of_its_start():
    """pass@1 30-60%, pass@8 25 points above it, entropy >= 0.2, signal in half."""
    start = {n: x[0] for n, x in read_metrics(HERE / "evaluation.parquet").items()}
    assert start["step"] == 0
    assert 0.3 <= start["pass_at_1"] <= 0.6
    assert start["pass_at_8"] >= start["pass_at_1"] + 0.25
    assert start["entropy"] >= 0.2
    without = read_metrics(HERE / "metrics.parquet")["frac_reward_zero_std"]
    assert without[:8].mean() <= 0.5


def test_pass_at_1_rose_by_more_than_its_interval():
    end = {n: x[-1] for n, x in read_metrics(HERE / "evaluation.parquet").items()}
    assert end["step"] == read_config(HERE).steps
    assert end["change_pass_at_1_low"] > 0
