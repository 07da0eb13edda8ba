"""Complete training configs by name."""

from collections.abc import Callable

from entrometer.errors import MissingKey, nearest_name
from entrometer.recipes.calculator import calculator as calculator
from entrometer.recipes.qwen25_gsm8k import qwen25_gsm8k as qwen25_gsm8k
from entrometer.recipes.reference import reference as reference
from entrometer.recipes.reference import tiny_twin as tiny_twin
from entrometer.recipes.workbench import workbench as workbench
from entrometer.training.config import TrainConfig

RECIPES: dict[str, Callable[[], TrainConfig]] = {
    "calculator": calculator,
    "qwen25-gsm8k": qwen25_gsm8k,
    "reference": reference,
    "tiny-twin": tiny_twin,
    "workbench": workbench,
}


def recipe(name: str) -> TrainConfig:
    """Return the training config of that name."""
    if name not in RECIPES:
        raise MissingKey(
            f"expected a recipe of {sorted(RECIPES)}, got {name!r}; name one of them."
            f"{nearest_name(name, RECIPES)}"
        )
    return RECIPES[name]()
