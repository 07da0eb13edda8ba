import numpy as np
import pytest
import torch

from entrometer.errors import MissingKey
from entrometer.recipes import RECIPES, recipe, tiny_twin
from entrometer.runs import read_update, update_path
from entrometer.tasks import Split, task
from entrometer.training.run import accumulation_steps, train
from tests.tasks.test_gsm8k import REAL
from tests.training.toy import quietly


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_batched(name):
    config = recipe(name)
    assert (
        accumulation_steps(
            prompts=config.prompts,
            responses=config.responses,
            micro_batch=config.micro_batch,
            processes=1,
        )
        >= 1
    )


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_its_problems(name, monkeypatch):
    config = recipe(name)
    if config.task == "gsm8k":
        if not REAL.is_dir():
            pytest.skip(f"no GSM8K in {REAL}")
        monkeypatch.setenv("ENTROMETER_GSM8K", str(REAL))
    found = task(config.task, **config.task_settings())
    assert len(found.problems(Split.TRAIN, config.problems)) == config.problems


def test_unknown_recipe_is_told_the_nearest():
    with pytest.raises(MissingKey, match="Did you mean 'tiny-twin'"):
        recipe("tiny-twins")


@pytest.mark.slow
def test_the_tiny_twin_learns(tmp_path):
    """Reward rises and entropy falls, from the first four updates to the last four."""
    with quietly(), torch.random.fork_rng(devices=[]):
        train(tiny_twin(), tmp_path)
    steps = tiny_twin().steps
    batches = [read_update(update_path(tmp_path, n)) for n in range(1, steps + 1)]
    reward = [batch.reward.mean() for batch in batches]
    entropy = [np.concatenate(batch.H).mean() for batch in batches]
    assert np.mean(reward[-4:]) > np.mean(reward[:4]) + 0.2
    assert np.mean(entropy[-4:]) < np.mean(entropy[:4]) - 0.8
