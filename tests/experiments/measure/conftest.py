from dataclasses import replace

import pytest

from entrometer.experiments.measure.config import MeasureConfig


@pytest.fixture
def other(config: MeasureConfig) -> MeasureConfig:
    """The same with another learning rate beside the two."""
    return replace(config, etas=(*config.etas, 1e-3))
