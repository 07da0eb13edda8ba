import pytest

from entrometer.errors import MissingKey
from entrometer.recipes import RECIPES, recipe
from entrometer.tasks import Split, task
from entrometer.training.batching import accumulation_steps


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_batched_and_has_its_problems(name):
    config = recipe(name)
    assert (
        accumulation_steps(
            prompts=config.prompts,
            responses=config.responses,
            micro_batch=config.micro_batch,
            processes=1,
        )
        > 1
    )
    found = task(config.task, **config.task_settings())
    assert len(found.problems(Split.TRAIN, config.problems)) == config.problems


def test_unknown_recipe_is_told_the_nearest():
    with pytest.raises(MissingKey, match="Did you mean 'tiny-twin'"):
        recipe("tiny-twins")
